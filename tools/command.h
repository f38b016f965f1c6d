#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace tutti {

// One word after `tutti`: add a command with one file and one row in main.cc.
struct Command {
  const char* name;
  const char* summary;
  // Declares the arguments. What it returns runs when they have been parsed and gives the exit status: 0, or 1 when
  // what was asked about is not in order. Throws CLI::ParseError or Error(kInvalidArgument) for arguments that do not
  // go together, with which main() exits with 2, and other Errors.
  std::function<int()> (*declare)(CLI::App& command);
};

extern const Command kDoctorCommand;
extern const Command kPlanCommand;
extern const Command kTopoCommand;
extern const Command kTuneCommand;
extern const Command kVerifyCommand;

}  // namespace tutti
