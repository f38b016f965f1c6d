#include <cstdio>

#include "arguments.h"
#include "command.h"
#include "topology/machine.h"
#include "transport/shm/pages.h"

namespace tutti {
namespace {

int run(std::span<const std::string_view> words) {
  Arguments arguments(words, kTopoCommand.name, kTopoCommand.usage);
  const std::optional<std::string_view> file = arguments.option("--xml");
  arguments.done();
  std::fputs(describe(file ? load_machine(std::string(*file)) : discover_machine()).c_str(), stdout);
  if (!file) std::printf("shared memory: %s\n", describe(shared_huge_pages()).c_str());
  return 0;
}

}  // namespace

constexpr Command kTopoCommand = {
    "topo", "[--xml FILE]", "Shows what this machine is made of, or the machine in a file written by lstopo.", run};

}  // namespace tutti
