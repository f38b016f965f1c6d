#include "topology/machine.h"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "base/system_error.h"
#include "tutti/error.h"

namespace tutti {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// Only what Machine has room for: each kind of object left out is time and memory saved.
Topology new_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_CORE, HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE}) {
    hwloc_topology_set_type_filter(topology, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  }
  // NUMA nodes that are smaller than a package hang below groups.
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  return Topology(topology);
}

// hwloc's x86 component binds the calling thread to each hardware thread in turn: only when /sys does not answer.
Topology load_this_machine(bool ask_processors) {
  Topology topology = new_topology();
  if (!topology) return nullptr;
  for (const char* component : {"pci", "opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"}) {
    hwloc_topology_set_components(topology.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  if (!ask_processors) {
    hwloc_topology_set_components(topology.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  }
  return hwloc_topology_load(topology.get()) == 0 ? std::move(topology) : nullptr;
}

bool has(const Topology& topology, hwloc_obj_type_t type) {
  return topology && hwloc_get_nbobjs_by_type(topology.get(), type) > 0;
}

std::string info(hwloc_obj_t object, const char* key) {
  const char* text = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, key);
  return text == nullptr ? "" : text;
}

std::vector<int> numbers(hwloc_const_bitmap_t set) {
  std::vector<int> result;
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) result.push_back(i);
  return result;
}

// The nearest node: of those that cover the core, the one that covers least. Nodes without processors cover nothing.
int numa_node_of(hwloc_topology_t topology, hwloc_const_cpuset_t cores) {
  int best = Machine::kUnknown;
  int best_weight = 0;
  const int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  for (int n = 0; n < nodes; ++n) {
    hwloc_const_cpuset_t near = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(n))->cpuset;
    const int weight = hwloc_bitmap_weight(near);
    if (!hwloc_bitmap_isincluded(cores, near)) continue;
    if (best == Machine::kUnknown || weight < best_weight) best = n, best_weight = weight;
  }
  return best;
}

Machine::Core extract_core(hwloc_topology_t topology, hwloc_obj_t object) {
  Machine::Core core;
  core.hardware_threads = numbers(object->cpuset);
  core.numa_node = numa_node_of(topology, object->cpuset);
  for (hwloc_obj_t above = object; above != nullptr; above = above->parent) {
    if (above->type == HWLOC_OBJ_PACKAGE) core.package = static_cast<int>(above->logical_index);
    if (above->type == HWLOC_OBJ_L1CACHE) core.l1_bytes = above->attr->cache.size;
    if (above->type == HWLOC_OBJ_L2CACHE) core.l2_bytes = above->attr->cache.size;
    if (above->type == HWLOC_OBJ_L3CACHE) {
      core.l3_bytes = above->attr->cache.size;
      core.l3 = static_cast<int>(above->logical_index);
    }
  }
  return core;
}

// What each core has of its L2 cache when all cores work at once; the least of all cores.
std::size_t smallest_l2_share(hwloc_topology_t topology, hwloc_obj_type_t core_type) {
  std::size_t smallest = 0;
  const int caches = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_L2CACHE);
  for (int c = 0; c < caches; ++c) {
    hwloc_obj_t cache = hwloc_get_obj_by_type(topology, HWLOC_OBJ_L2CACHE, static_cast<unsigned>(c));
    const int cores = std::max(1, hwloc_get_nbobjs_inside_cpuset_by_type(topology, cache->cpuset, core_type));
    const std::size_t share = cache->attr->cache.size / static_cast<std::size_t>(cores);
    if (share != 0 && (smallest == 0 || share < smallest)) smallest = share;
  }
  return smallest == 0 ? Machine::kAssumedL2Bytes : smallest;
}

std::vector<int> usable_threads(hwloc_topology_t topology) {
  const Bitmap bound(hwloc_bitmap_alloc());
  hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology);
  if (hwloc_topology_is_thissystem(topology) && hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_bitmap_and(bound.get(), bound.get(), allowed);
    if (!hwloc_bitmap_iszero(bound.get())) return numbers(bound.get());
  }
  return numbers(allowed);
}

Machine extract(hwloc_topology_t topology) {
  Machine machine;
  hwloc_obj_t root = hwloc_get_root_obj(topology);
  machine.host = info(root, "HostName");
  machine.product = info(root, "DMIProductName");
  machine.cpu = info(hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), "CPUModel");
  if (machine.cpu.empty()) machine.cpu = info(root, "CPUModel");
  machine.packages = std::max(0, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE));

  for (int n = 0; n < hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE); ++n) {
    hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(n));
    machine.numa_nodes.push_back({static_cast<int>(node->os_index), node->attr->numanode.local_memory});
  }

  // Where no cores are told, every hardware thread counts as one.
  machine.flat = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) <= 0;
  const hwloc_obj_type_t core_type = machine.flat ? HWLOC_OBJ_PU : HWLOC_OBJ_CORE;
  for (int c = 0; c < hwloc_get_nbobjs_by_type(topology, core_type); ++c) {
    machine.cores.push_back(
        extract_core(topology, hwloc_get_obj_by_type(topology, core_type, static_cast<unsigned>(c))));
  }
  machine.l2_bytes = smallest_l2_share(topology, core_type);
  machine.usable = usable_threads(topology);
  return machine;
}

// When not even hwloc has an answer.
Machine unknown_machine() {
  Machine machine;
  machine.flat = true;
  const long threads = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  for (int t = 0; t < threads; ++t) {
    machine.cores.push_back({.hardware_threads = {t}});
    machine.usable.push_back(t);
  }
  return machine;
}

// Where a filter refuses this call hwloc asks for ever, with ever longer masks. Too short a mask is a different matter.
bool affinity_is_told() {
  cpu_set_t mask;
  return sched_getaffinity(0, sizeof(mask), &mask) == 0 || errno == EINVAL;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

std::size_t Machine::hardware_threads() const {
  std::size_t threads = 0;
  for (const Core& core : cores) threads += core.hardware_threads.size();
  return threads;
}

Machine discover_machine() {
  const Clock::time_point start = Clock::now();
  const bool answers = affinity_is_told();
  const bool kernel_tells = answers && access("/sys/devices/system/cpu", R_OK) == 0;
  Topology topology = answers ? load_this_machine(false) : nullptr;
  if (!answers) {
    log_warn("sched_getaffinity is refused ({}): placement and cache sizes stay unknown", errno_text(errno));
  } else if (!has(topology, HWLOC_OBJ_CORE) || !has(topology, HWLOC_OBJ_L2CACHE))
    topology = load_this_machine(true);
  Machine machine = topology ? extract(topology.get()) : unknown_machine();
  if (machine.host.empty()) {
    char name[256] = {};
    if (gethostname(name, sizeof(name) - 1) == 0) machine.host = name;
  }
  machine.flat = machine.flat || !kernel_tells;
  if (machine.flat && answers) {
    log_warn(
        "/sys does not tell how this machine is built: {} hardware threads without known distances; mount sysfs "
        "to get placement and cache sizes right",
        machine.hardware_threads());
  }
  machine.discovery_seconds = seconds_since(start);
  return machine;
}

Machine load_machine(const std::string& xml_file) {
  const Clock::time_point start = Clock::now();
  const Topology topology = new_topology();
  errno = 0;
  if (!topology || hwloc_topology_set_xml(topology.get(), xml_file.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    const int reason = errno;
    throw Error(ErrorCode::kInvalidSetting, "cannot load topology file " + xml_file + " (" + std::strerror(reason) +
                                                "): write one with `lstopo " + "file.xml` of hwloc " +
                                                std::to_string(HWLOC_API_VERSION >> 16) + ", or leave it out");
  }
  Machine machine = extract(topology.get());
  machine.discovery_seconds = seconds_since(start);
  return machine;
}

Machine synthetic_machine(const std::string& description) {
  const Topology topology = new_topology();
  if (!topology || hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    throw Error(ErrorCode::kInvalidSetting, "\"" + description +
                                                "\" does not describe a machine: say it in the synthetic language of "
                                                "hwloc, as in \"pack:2 numa:2 l3:2 core:4 pu:1\"");
  }
  return extract(topology.get());
}

}  // namespace tutti
