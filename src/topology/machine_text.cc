#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "topology/machine.h"

namespace tutti {
namespace {

std::string size_text(std::uint64_t bytes) {
  if (bytes == 0) return "?";
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", value, value == static_cast<double>(static_cast<std::uint64_t>(value)) ? 0 : 1,
                     kUnits[unit]);
}

// "0-3,8": ascending, each number once.
std::string ranges(const std::set<int>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const int first = *it;
    int last = first;
    while (++it != numbers.end() && *it == last + 1) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text.empty() ? "none" : text;
}

std::string plural(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Cores that are alike and lie together.
struct Group {
  std::size_t cores = 0;
  std::set<int> threads;
};
using Place = std::tuple<int, int, int, std::size_t, std::size_t, std::size_t>;  // package, node, l3, cache sizes

std::map<Place, Group> groups(const Machine& machine) {
  std::map<Place, Group> result;
  for (const Machine::Core& core : machine.cores) {
    Group& group = result[{core.package, core.numa_node, core.l3, core.l1_bytes, core.l2_bytes, core.l3_bytes}];
    ++group.cores;
    group.threads.insert(core.hardware_threads.begin(), core.hardware_threads.end());
  }
  return result;
}

std::string number_or_unknown(int number) { return number == Machine::kUnknown ? "?" : std::to_string(number); }

}  // namespace

std::string describe(const Machine& machine) {
  std::string text = fmt::format("machine      {}", machine.host.empty() ? "unknown host" : machine.host);
  if (!machine.product.empty()) text += fmt::format(", {}", machine.product);
  if (!machine.cpu.empty()) text += fmt::format(", {}", machine.cpu);
  text += fmt::format("\nmade of      {}, {}, {}, {}\n", plural(static_cast<std::size_t>(machine.packages), "package"),
                      plural(machine.numa_nodes.size(), "NUMA node"), plural(machine.cores.size(), "core"),
                      plural(machine.hardware_threads(), "hardware thread"));
  if (machine.flat) text += "             (the system does not tell how they are arranged)\n";
  text += fmt::format("this process may use {} of them: {}\n", machine.usable.size(),
                      ranges({machine.usable.begin(), machine.usable.end()}));
  int last_package = Machine::kUnknown;
  int last_node = Machine::kUnknown;
  bool first = true;
  for (const auto& [place, group] : groups(machine)) {
    const auto& [package, node, l3, l1_bytes, l2_bytes, l3_bytes] = place;
    if (first || package != last_package) text += fmt::format("package {}\n", number_or_unknown(package));
    if (first || package != last_package || node != last_node) {
      if (node == Machine::kUnknown) {
        text += "  no NUMA node of its own\n";
      } else {
        const Machine::NumaNode& numa = machine.numa_nodes[static_cast<std::size_t>(node)];
        text += fmt::format("  NUMA node {}, {}\n", numa.os_number, size_text(numa.memory_bytes));
      }
    }
    text += fmt::format("    {}, hardware threads {}: L1 {}, L2 {}, L3 {}\n", plural(group.cores, "core"),
                        ranges(group.threads), size_text(l1_bytes), size_text(l2_bytes), size_text(l3_bytes));
    last_package = package;
    last_node = node;
    first = false;
  }
  text += fmt::format("slot rings are sized by {} of L2 cache a core; found out in {:.1f} ms\n",
                      size_text(machine.l2_bytes), machine.discovery_seconds * 1e3);
  return text;
}

}  // namespace tutti
