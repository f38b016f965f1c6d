#include <cstdio>

#include "command.h"
#include "topology/machine.h"
#include "tutti/error.h"

namespace tutti {
namespace {

int run(std::span<const std::string_view> arguments) {
  std::string xml_file;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--xml" && i + 1 < arguments.size()) {
      xml_file = arguments[++i];
    } else {
      throw Error(ErrorCode::kInvalidArgument, "cannot make sense of \"" + std::string(arguments[i]) +
                                                   "\"; usage: tutti topo " + std::string(kTopoCommand.usage));
    }
  }
  std::fputs(describe(xml_file.empty() ? discover_machine() : load_machine(xml_file)).c_str(), stdout);
  return 0;
}

}  // namespace

constexpr Command kTopoCommand = {
    "topo", "[--xml FILE]", "Shows what this machine is made of, or the machine in a file written by lstopo.", run};

}  // namespace tutti
