#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include "command.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace {

constexpr const tutti::Command* kCommands[] = {&tutti::kDoctorCommand, &tutti::kPlanCommand, &tutti::kTopoCommand,
                                               &tutti::kTuneCommand, &tutti::kVerifyCommand};

void print_help(std::FILE* out, const tutti::Command& command) {
  std::fprintf(out, "  tutti %.*s %.*s\n      %.*s\n", static_cast<int>(command.name.size()), command.name.data(),
               static_cast<int>(command.usage.size()), command.usage.data(), static_cast<int>(command.summary.size()),
               command.summary.data());
}

void print_help(std::FILE* out) {
  std::fputs("usage: tutti COMMAND [ARGUMENT…], tutti COMMAND --help, tutti --version\n", out);
  for (const tutti::Command* command : kCommands) print_help(out, *command);
}

bool is_help(std::string_view word) { return word == "--help" || word == "-h"; }

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (std::ranges::find(arguments, "--version") != arguments.end()) {
    std::printf("tutti %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    return 0;
  }
  if (arguments.empty() || is_help(arguments[0]) || arguments[0] == "help") {
    print_help(arguments.empty() ? stderr : stdout);
    return arguments.empty() ? 2 : 0;
  }
  for (const tutti::Command* command : kCommands) {
    if (command->name != arguments[0]) continue;
    if (std::ranges::any_of(arguments, is_help)) {
      print_help(stdout, *command);
      return 0;
    }
    try {
      return command->run(std::span(arguments).subspan(1));
    } catch (const tutti::Error& error) {
      std::fprintf(stderr, "tutti %s: %s\n", argv[1], error.what());
      return error.code() == tutti::ErrorCode::kInvalidArgument ? 2 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "tutti %s: %s\n", argv[1], error.what());
      return 1;
    }
  }
  std::fprintf(stderr, "tutti: there is no command \"%s\"\n", argv[1]);
  print_help(stderr);
  return 2;
}
