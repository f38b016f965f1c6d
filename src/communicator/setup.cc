#include "communicator/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "base/setting_advice.h"
#include "communicator/links.h"
#include "topology/machine.h"
#include "transport/shm/peer_segments.h"
#include "transport/shm/shm_endpoint.h"

namespace tutti {
namespace {

constexpr int kManyRanks = 64;  // beyond, connections get fewer lines and one channel
constexpr std::size_t kSmallestRing = std::size_t{1} << 20;
constexpr std::size_t kLargestRing = std::size_t{8} << 20;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The machine is looked at once in a process, by its first communicator.
const Machine& machine_of_process() {
  static const Machine machine = discover_machine();
  return machine;
}

std::size_t wished_ring_bytes(const Config& config) {
  if (const auto given = config.integer(Setting::kRingBytes); given > 0) return static_cast<std::size_t>(given);
  return std::clamp(2 * machine_of_process().l2_bytes, kSmallestRing, kLargestRing);
}

// Ranks with another text never share memory. The same kernel is where sharing can be tried.
std::string host_text(const Config& config, int rank) {
  if (config.flag(Setting::kShmDisable)) return fmt::format("rank {} alone", rank);
  if (config.given(Setting::kHostId)) return "id " + config.text(Setting::kHostId);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return "boot " + boot;
}

// What the ranks tell each other before anything is decided.
struct Facts {
  std::uint64_t ring_bytes = 0;          // the smallest of the slot rings that suit their caches
  std::vector<std::string> hosts;        // by rank
  std::vector<std::vector<int>> usable;  // by rank: hardware threads that it may run on
};

constexpr std::size_t kLongestHost = 4096;
constexpr std::size_t kMostHardwareThreads = 8192;

std::vector<std::byte> own_facts(const Config& config, int rank) {
  const std::vector<int>& usable = machine_of_process().usable;
  ByteWriter writer;
  writer.u64(wished_ring_bytes(config));
  writer.text(host_text(config, rank));
  const std::size_t count = std::min(usable.size(), kMostHardwareThreads);
  writer.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) writer.u32(static_cast<std::uint32_t>(usable[i]));
  return writer.take();
}

void take_facts(Facts& facts, std::span<const std::byte> answer) {
  ByteReader reader(answer, "what a rank says about its host");
  facts.ring_bytes = std::min(facts.ring_bytes, reader.u64());
  facts.hosts.push_back(reader.text(kLongestHost));
  std::vector<int> usable(std::min<std::size_t>(reader.u32(), kMostHardwareThreads));
  for (int& thread : usable) thread = static_cast<int>(reader.u32());
  facts.usable.push_back(std::move(usable));
  reader.finish();
}

Facts exchange_facts(ControlPlane& control, const Config& config, int rank, Deadline deadline) {
  Facts facts;
  facts.ring_bytes = wished_ring_bytes(config);
  for (const auto& answer : control.all_gather(own_facts(config, rank), deadline)) {
    const int from = static_cast<int>(facts.hosts.size());
    try {
      take_facts(facts, answer);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", control.describe(from), error.what()), from);
    }
  }
  facts.ring_bytes = facts.ring_bytes / SegmentLayout::kPage * SegmentLayout::kPage;
  return facts;
}

// A rank may spin only where every rank of its host has a hardware thread. Launchers bind each rank to its own, so
// what one rank may use says nothing about the others.
bool enough_hardware_threads(const HostGroup& group, const Facts& facts) {
  std::set<int> usable;
  for (const int member : group.members) {
    const auto& threads = facts.usable[static_cast<std::size_t>(member)];
    usable.insert(threads.begin(), threads.end());
  }
  return group.members.size() <= usable.size();
}

// Everything that is written often is made present now; the large rings when long messages flow.
void reserve_area(const HostGroup& group) {
  const SegmentLayout& layout = group.layout;
  group.segment.reserve(layout.area(group.own_area), layout.point_to_point(0),
                        "the flags and short messages of a communicator");
}

std::vector<std::unique_ptr<Channel>> make_channels(const Layout& layout, HostGroup& group) {
  std::vector<std::unique_ptr<Channel>> channels;
  const SegmentLayout& memory = group.layout;
  std::byte* area = group.segment.data() + memory.area(group.own_area);
  for (std::uint32_t c = 0; c < memory.channels; ++c) {
    const auto reserve = [segment = &group.segment, offset = memory.area(group.own_area) + memory.large_ring(c),
                          bytes = memory.large_ring_bytes] {
      segment->reserve(offset, bytes, "the slots of long messages, whose size TUTTI_RING_BYTES sets");
    };
    channels.push_back(std::make_unique<Channel>(layout, static_cast<int>(c), area,
                                                 SlotRing(memory.small_ring(c), memory.small_ring_bytes, 0),
                                                 SlotRing(memory.large_ring(c), memory.large_ring_bytes, 1), reserve));
  }
  return channels;
}

// What the other ranks of the host let this one read in place.
std::vector<std::unique_ptr<PeerSegments>> make_peer_segments(int ranks, const HostGroup& group) {
  std::vector<std::unique_ptr<PeerSegments>> segments(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    segments[static_cast<std::size_t>(group.members[i])] = std::make_unique<PeerSegments>(
        confirmed_word(group.layout, group.segment.data(), group.own_area, group.areas[i]));
  }
  return segments;
}

void connect_everyone(Session::Parts& parts) {
  const SegmentLayout& memory = parts.group->layout;
  // Shared with the function that connects peers of point-to-point later.
  const auto links = std::make_shared<Links>(parts);
  for (std::uint32_t c = 0; c < memory.channels; ++c) {
    for (Endpoint& endpoint : parts.channels[c]->endpoints()) {
      if (endpoint.peer == parts.layout.rank) continue;
      links->connect(endpoint, c);
      endpoint.segments = parts.peer_segments[endpoint.peer].get();
    }
  }
  const std::size_t area = memory.area(parts.group->own_area);
  PointToPoint::Wiring wiring;
  wiring.slots = parts.group->segment.data() + area;
  wiring.piece_bytes = memory.piece_bytes;
  wiring.pieces = [memory](int peer) { return memory.pieces(static_cast<std::uint32_t>(peer)); };
  wiring.reserve = [segment = &parts.group->segment, area](std::size_t offset, std::size_t bytes) {
    segment->reserve(area + offset, bytes, "messages between two ranks");
  };
  wiring.connect = [links, channels = memory.channels](PointToPoint::Connection connection, Endpoint& endpoint) {
    links->connect(endpoint, channels + static_cast<std::uint32_t>(connection));
  };
  parts.point_to_point = std::make_unique<PointToPoint>(parts.layout.ranks, *parts.health, std::move(wiring));
}

}  // namespace

Config configure(const Options& options, const std::function<Membership(const Config&)>& find_membership) {
  try {
    const Config environment = Config::from_environment();
    warn_of_environment(environment);
    Config config = environment.with(options.config);
    if (options.config.contains("TUTTI_DUMP_DIR") || options.config.contains("TUTTI_SOCKET_IFNAME")) {
      warn_of_settings(config);
    }
    return config;
  } catch (const Error& error) {
    try {
      const Config readable = Config::readable(options.config);
      Membership membership = find_membership(readable);
      membership.name = options.name;
      ControlPlane::complain(std::move(membership), readable, error);
    } catch (const Error&) {
      // Nor does this rank know who it is.
    }
    throw;
  }
}

SegmentLayout segment_layout(const Config& config, int ranks, std::uint64_t ring_bytes) {
  SegmentLayout layout;
  layout.ranks = static_cast<std::uint32_t>(ranks);
  const auto channels = config.integer(Setting::kChannels);
  layout.channels = channels > 0 ? static_cast<std::uint32_t>(channels) : (ranks <= kManyRanks ? 2 : 1);
  layout.large_ring_bytes = ring_bytes;
  if (ranks > kManyRanks) {
    layout.window = 2;
    layout.piece_bytes = SegmentLayout::kPage;
  }
  return layout;
}

void complete(Session::Parts& parts, const Config& config, const Options& options, int rank) {
  parts.name = options.name;
  parts.options = options;
  parts.config = config;
  parts.reproducible = options.reproducible;
  parts.timeout = options.timeout;
  parts.log = std::make_unique<OperationLog>();
  reserve_area(*parts.group);
  parts.placement = Placement(parts.group->leader_of);
  parts.layout = parts.placement.layout(rank);
  parts.channels = make_channels(parts.layout, *parts.group);
  parts.peer_segments = make_peer_segments(parts.layout.ranks, *parts.group);

  SelectorOptions selection;
  selection.channels = static_cast<int>(parts.group->layout.channels);
  selection.ring_bytes = parts.group->layout.large_ring_bytes;
  selection.all_channels = config.integer(Setting::kChannels) > 0;
  selection.reproducible = options.reproducible;
  selection.algorithm = config.text(Setting::kAlgorithm);
  selection.chunk_bytes = static_cast<std::size_t>(config.integer(Setting::kChunkBytes));
  parts.selector = std::make_unique<Selector>(parts.layout, selection);

  connect_everyone(parts);
}

std::unique_ptr<Session> open_session(Membership membership, const Config& config, const Options& options) {
  const auto start = Clock::now();
  const Deadline deadline = start + config.duration(Setting::kMeetTimeout);
  membership.name = options.name;
  complete_membership(membership, deadline);

  Session::Parts parts;
  parts.health = std::make_unique<Health>(membership.ranks);
  parts.control = ControlPlane::meet(membership, config, *parts.health);
  ControlPlane& control = *parts.control;

  const auto discovery = Clock::now();
  machine_of_process();
  parts.discovery_seconds = seconds_since(discovery);

  HostGroupRequest request;
  request.rank = membership.rank;
  request.ranks = membership.ranks;
  request.key = control.derive_key("shared memory");
  request.directory = config.text(Setting::kShmDir);
  Facts facts;
  try {
    facts = exchange_facts(control, config, membership.rank, deadline);
  } catch (const Error&) {
    remove_socket_files(request.key, request.directory, request.rank);
    throw;
  }
  request.hosts = facts.hosts;
  request.layout = segment_layout(config, membership.ranks, facts.ring_bytes);
  request.exchange = [&](std::span<const std::byte> mine) { return control.all_gather(mine, deadline); };
  request.given_up = [health = parts.health.get()] { return health->failed(); };
  parts.group = std::make_unique<HostGroup>(join_host_group(request));
  parts.spin = enough_hardware_threads(*parts.group, facts);
  complete(parts, config, options, membership.rank);

  if (parts.layout.hosts > 1) control.all_gather({}, deadline);  // connections can be made only when all listen
  parts.setup_seconds = seconds_since(start);
  log_info("communicator \"{}\": rank {} of {} ready in {:.1f} ms ({} hosts)", options.name, membership.rank,
           membership.ranks, parts.setup_seconds * 1e3, parts.layout.hosts);
  return std::make_unique<Session>(std::move(parts));
}

}  // namespace tutti
