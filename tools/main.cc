#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "command.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace {

constexpr const tutti::Command* kCommands[] = {&tutti::kDoctorCommand, &tutti::kPlanCommand, &tutti::kTopoCommand,
                                               &tutti::kTuneCommand, &tutti::kVerifyCommand};
constexpr int kWrongArguments = 2;

std::string version() {
  return "tutti " + std::to_string(TUTTI_VERSION_MAJOR) + "." + std::to_string(TUTTI_VERSION_MINOR) + "." +
         std::to_string(TUTTI_VERSION_PATCH);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Shows, proves and measures what Tutti does on a machine, and explains a job that failed.", "tutti");
  app.set_version_flag("--version", version());
  app.require_subcommand(0, 1);  // none: said below, behind what is no command
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::string running = "tutti";
  std::function<int()> run;
  for (const tutti::Command* command : kCommands) {
    CLI::App* const words = app.add_subcommand(command->name, command->summary);
    words->set_version_flag("--version", version());
    words->callback([&running, &run, command, chosen = command->declare(*words)] {
      running += std::string(" ") + command->name;
      run = chosen;
    });
  }
  try {
    app.parse(argc, argv);
    if (!run) throw CLI::RequiredError::Subcommand(1);
    return run();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongArguments;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", running.c_str(), error.what());
    return error.code() == tutti::ErrorCode::kInvalidArgument ? kWrongArguments : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", running.c_str(), error.what());
    return 1;
  }
}
