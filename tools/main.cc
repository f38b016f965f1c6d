#include <cstdio>
#include <exception>
#include <vector>

#include "command.h"
#include "tutti/error.h"

namespace {

constexpr const tutti::Command* kCommands[] = {&tutti::kDoctorCommand, &tutti::kPlanCommand, &tutti::kTopoCommand,
                                               &tutti::kTuneCommand, &tutti::kVerifyCommand};

void print_help(std::FILE* out) {
  std::fputs("usage: tutti COMMAND [ARGUMENT…]\n", out);
  for (const tutti::Command* command : kCommands) {
    std::fprintf(out, "  tutti %.*s %.*s\n      %.*s\n", static_cast<int>(command->name.size()), command->name.data(),
                 static_cast<int>(command->usage.size()), command->usage.data(),
                 static_cast<int>(command->summary.size()), command->summary.data());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_help(arguments.empty() ? stderr : stdout);
    return arguments.empty() ? 2 : 0;
  }
  for (const tutti::Command* command : kCommands) {
    if (command->name != arguments[0]) continue;
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
