#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// What hwloc sees of one machine, as plain numbers: nothing of hwloc stays behind. A value; whoever asked for it keeps
// it (the process's first communicator does, for all). Reading it never blocks; discovery does, for milliseconds.
struct Machine {
  static constexpr int kUnknown = -1;
  static constexpr std::size_t kAssumedL2Bytes = std::size_t{1} << 20;

  // Several objects may share a number of the operating system's; these are positions in the vectors below.
  struct Core {
    int package = kUnknown;
    int numa_node = kUnknown;
    int l3 = kUnknown;                  // cores with equal numbers share a cache
    std::size_t l1_bytes = 0;           // of the caches that serve this core; 0: unknown
    std::size_t l2_bytes = 0;           //
    std::size_t l3_bytes = 0;           //
    std::vector<int> hardware_threads;  // by the operating system's numbers, ascending
  };
  struct NumaNode {
    int os_number = 0;
    std::uint64_t memory_bytes = 0;
  };

  std::string host;     // host name
  std::string cpu;      // "AMD EPYC 7B13 64-Core Processor"; "" when unknown
  std::string product;  // the machine by its maker's name, or the hypervisor's; "" when unknown
  int packages = 0;     // 0: unknown
  std::vector<NumaNode> numa_nodes;
  std::vector<Core> cores;
  std::vector<int> usable;  // hardware threads that this process may run on, by the operating system's numbers

  // Share of one core in its L2 cache, the smallest of all cores, so that all ranks of a host get the same number
  // whatever they are bound to. kAssumedL2Bytes when unknown.
  std::size_t l2_bytes = kAssumedL2Bytes;
  bool flat = false;             // the operating system does not tell how cores and caches are arranged
  double discovery_seconds = 0;  // what it cost to find this out

  std::size_t hardware_threads() const;
};

// Looks at the machine that this process runs on. Never fails: where /sys is missing (sandboxes) the result is flat,
// with one warning in the log.
Machine discover_machine();

// The machine that an hwloc XML file describes (`lstopo file.xml`); usable are all its hardware threads. Throws
// Error(kInvalidSetting) when the file cannot be read.
Machine load_machine(const std::string& xml_file);

// The machine that a description in hwloc's synthetic language stands for ("pack:2 numa:2 l3:2 core:4 pu:1"). Throws
// Error(kInvalidSetting) when it is none.
Machine synthetic_machine(const std::string& description);

// Several lines for people, as `tutti topo` prints them.
std::string describe(const Machine& machine);

}  // namespace tutti
