#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti {

// One word after `tutti`: add a command with one file and one row in main.cc.
struct Command {
  std::string_view name;
  std::string_view usage;    // its arguments, for the help
  std::string_view summary;  // one sentence
  // Returns the exit status: 0, or 1 when what was asked about is not in order. Throws Error, which main() prints;
  // Error(kInvalidArgument) for a wrong command line, which exits with 2.
  int (*run)(std::span<const std::string_view> arguments);
};

extern const Command kDoctorCommand;
extern const Command kPlanCommand;
extern const Command kTopoCommand;
extern const Command kTuneCommand;
extern const Command kVerifyCommand;

}  // namespace tutti
