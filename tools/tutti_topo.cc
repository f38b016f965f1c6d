#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "command.h"
#include "topology/machine.h"
#include "transport/shm/pages.h"

namespace tutti {
namespace {

std::function<int()> declare(CLI::App& command) {
  const auto file = std::make_shared<std::string>();
  command.add_option("--xml", *file, "a file written by lstopo, instead of this machine");
  return [file] {
    std::fputs(describe(file->empty() ? discover_machine() : load_machine(*file)).c_str(), stdout);
    if (file->empty()) std::printf("shared memory: %s\n", describe(shared_huge_pages()).c_str());
    return 0;
  };
}

}  // namespace

constexpr Command kTopoCommand = {"topo", "Shows what this machine is made of, or the machine in a file", declare};

}  // namespace tutti
