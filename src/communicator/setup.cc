#include "communicator/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/arithmetic.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/only_errors.h"
#include "base/setting_advice.h"
#include "base/store_barrier.h"
#include "base/text.h"
#include "bootstrap/waiting_times.h"
#include "collectives/fitting.h"
#include "collectives/tuning.h"
#include "communicator/durations.h"
#include "communicator/links.h"
#include "communicator/probing.h"
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
  std::vector<CpuPlace> places;          // by rank
  std::vector<std::uint64_t> tunings;    // by rank: what is in its tuning file

  std::vector<RankFacts> by_rank() const {
    std::vector<RankFacts> result;
    for (std::size_t rank = 0; rank < usable.size(); ++rank) result.push_back({usable[rank], places[rank]});
    return result;
  }
};

constexpr std::size_t kLongestHost = 4096;
constexpr std::size_t kMostHardwareThreads = 8192;

std::vector<std::byte> own_facts(const Config& config, const Tuning& tuning, int rank) {
  const std::vector<int>& usable = machine_of_process().usable;
  ByteWriter writer;
  writer.u64(wished_ring_bytes(config));
  writer.text(host_text(config, rank));
  const std::size_t count = std::min(usable.size(), kMostHardwareThreads);
  writer.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) writer.u32(static_cast<std::uint32_t>(usable[i]));
  const CpuPlace place = place_of_threads(machine_of_process(), usable);
  for (const int object : {place.package, place.numa_node, place.cache}) {
    writer.u32(static_cast<std::uint32_t>(object));
  }
  writer.u64(tuning.hash);
  return writer.take();
}

void take_facts(Facts& facts, std::span<const std::byte> answer) {
  ByteReader reader(answer, "what a rank says about its host");
  facts.ring_bytes = std::min(facts.ring_bytes, reader.u64());
  facts.hosts.push_back(reader.text(kLongestHost));
  std::vector<int> usable(std::min<std::size_t>(reader.u32(), kMostHardwareThreads));
  for (int& thread : usable) thread = static_cast<int>(reader.u32());
  facts.usable.push_back(std::move(usable));
  CpuPlace place;
  for (int* object : {&place.package, &place.numa_node, &place.cache}) *object = static_cast<int>(reader.u32());
  facts.places.push_back(place);
  facts.tunings.push_back(reader.u64());
  reader.finish();
}

// All ranks find the same two.
void compare_tunings(const ControlPlane& control, const Facts& facts) {
  const auto other =
      std::ranges::find_if(facts.tunings, [&facts](std::uint64_t hash) { return hash != facts.tunings.front(); });
  if (other == facts.tunings.end()) return;
  const auto rank = static_cast<int>(other - facts.tunings.begin());
  const auto says = [](std::uint64_t hash) {
    return hash == 0 ? std::string("none") : fmt::format("one with the contents {:016x}", hash);
  };
  throw Error(ErrorCode::kMismatch,
              fmt::format("the ranks have different tuning files: {} has {}, {} has {}; set TUTTI_TUNING_FILE on all "
                          "ranks to files with the same contents, or on none",
                          control.describe(0), says(facts.tunings.front()), control.describe(rank), says(*other)),
              rank);
}

// All choose from the same numbers; processors that calculate otherwise may still differ. Connections can be made when
// all have come here: then all listen.
void compare_choices(ControlPlane& control, const Selector& selector, Deadline deadline) {
  ByteWriter writer;
  writer.u64(selector.hash());
  const auto answers = control.all_gather(writer.view(), deadline);
  const auto other = std::ranges::find_if(answers, [&](const auto& answer) { return answer != answers.front(); });
  if (other == answers.end()) return;
  const auto rank = static_cast<int>(other - answers.begin());
  throw Error(ErrorCode::kMismatch,
              fmt::format("{} and {} would run calls in different ways though they agree on all settings: they run "
                          "different versions of tutti, or builds that calculate differently",
                          control.describe(0), control.describe(rank)),
              rank);
}

Facts exchange_facts(ControlPlane& control, const Config& config, const Tuning& tuning, int rank, Deadline deadline) {
  Facts facts;
  facts.ring_bytes = wished_ring_bytes(config);
  for (const auto& answer : control.all_gather(own_facts(config, tuning, rank), deadline)) {
    const int from = static_cast<int>(facts.hosts.size());
    try {
      take_facts(facts, answer);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", control.describe(from), error.what()), from);
    }
  }
  compare_tunings(control, facts);
  facts.ring_bytes = facts.ring_bytes / SegmentLayout::kPage * SegmentLayout::kPage;
  return facts;
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
    const auto reserve_places = [segment = &group.segment, area = memory.area(group.own_area), memory] {
      const std::size_t first = memory.places(0);
      segment->reserve(area + first, memory.places(memory.members) - first, "messages of up to 4 KiB");
    };
    channels.push_back(std::make_unique<Channel>(
        layout, static_cast<int>(c), area, SlotRing(memory.small_ring(c), memory.small_ring_bytes, 0),
        SlotRing(memory.large_ring(c), memory.large_ring_bytes, 1), reserve, reserve_places));
  }
  return channels;
}

// Ranks that are far from each other have at least so many last caches, whatever a virtual machine says.
constexpr std::size_t kCachesOfFarRanks = 2;

// Gives every rank its share of the last caches of its host.
void share_caches(const HostGroup& group, std::span<const std::unique_ptr<Channel>> channels) {
  std::map<int, std::size_t> caches;
  for (const Machine::Core& core : machine_of_process().cores) {
    if (core.l3 != Machine::kUnknown) caches[core.l3] = core.l3_bytes;
  }
  std::size_t all = 0;
  for (const auto& [number, bytes] : caches) all += bytes;
  const std::size_t near = all / group.members.size();
  const std::size_t far = caches.empty() ? 0 : near * std::max(kCachesOfFarRanks, caches.size()) / caches.size();
  for (const auto& channel : channels) channel->set_cache_shares(near, far);
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
  std::vector<std::uint32_t> hops_ns;  // by rank
  for (int r = 0; r < parts.layout.ranks; ++r) {
    hops_ns.push_back(static_cast<std::uint32_t>(parts.distances.hop_ns(parts.layout.rank, r)));
  }
  for (std::uint32_t c = 0; c < memory.channels; ++c) {
    for (Endpoint& endpoint : parts.channels[c]->endpoints()) {
      if (endpoint.peer == parts.layout.rank) continue;
      links->connect(endpoint, c);
      endpoint.hop_ns = hops_ns[endpoint.peer];
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
  wiring.connect = [links, hops_ns = std::move(hops_ns), channels = memory.channels](
                       PointToPoint::Connection connection, Endpoint& endpoint) {
    links->connect(endpoint, channels + static_cast<std::uint32_t>(connection));
    endpoint.hop_ns = hops_ns[endpoint.peer];
  };
  parts.point_to_point = std::make_unique<PointToPoint>(parts.layout.ranks, *parts.health, std::move(wiring));
}

// Nobody waits any more, however the set-up ended; before the control plane goes.
class EndOfOpening {
 public:
  explicit EndOfOpening(OpeningWatch* opening) : opening_(opening) {}
  ~EndOfOpening() { now(); }
  EndOfOpening(const EndOfOpening&) = delete;
  EndOfOpening& operator=(const EndOfOpening&) = delete;
  void now() {
    if (OpeningWatch* const opening = std::exchange(opening_, nullptr)) opening->end();
  }
  void enters(const std::string& step, bool waits) const {
    if (opening_ != nullptr) opening_->enters(step, waits);
  }

 private:
  OpeningWatch* opening_;  // null: this is the only rank, or it is over
};

// Those who have met this rank, or wait for it, hear why it cannot take part.
void tell_others(const Session::Parts& parts, const Membership& membership, const Config& config,
                 const Error& error) noexcept try {
  if (parts.control == nullptr) return ControlPlane::complain(membership, config, error);
  if (parts.health->failed()) return;
  parts.health->fail(error.code(), error.what(), membership.rank);
  parts.control->poison(ErrorCode::kRemote,
                        fmt::format("{} cannot take part: {}", parts.control->describe(membership.rank), error.what()),
                        membership.rank);
} catch (const std::exception&) {
  // They hear at least that it has gone.
}

// Tells those who wait for this rank that it does not come, if they can be found.
void complain_of(const Error& error, const Options& options, const FindMembership& find_membership) noexcept try {
  const Config readable = Config::readable(options.config);
  Membership membership = find_membership(readable);
  membership.name = options.name;
  ControlPlane::complain(membership, readable, error);
} catch (const std::exception&) {
  // Nor does this rank know who it is.
}

}  // namespace

void check_options(const Options& options) { check_duration(options.timeout, "Options::timeout", "0 is no limit"); }

Config configure(const Options& options, const FindMembership& find_membership) {
  try {
    return only_errors([&] {
      const DefaultArithmetic arithmetic;
      check_options(options);
      const Config environment = Config::from_environment();
      warn_of_environment(environment);
      Config config = environment.with(options.config);
      if (options.config.contains("TUTTI_DUMP_DIR") || options.config.contains("TUTTI_SOCKET_IFNAME")) {
        warn_of_settings(config);
      }
      load_tuning(config.text(Setting::kTuningFile));
      return config;
    });
  } catch (const Error& error) {
    complain_of(error, options, find_membership);
    throw;
  }
}

Membership locate(const Config& config, const Options& options, const FindMembership& find_membership) {
  try {
    return only_errors([&] { return find_membership(config); });
  } catch (const Error& error) {
    // The system may have refused something this once. What the settings lack they still do.
    if (error.code() == ErrorCode::kSystem) complain_of(error, options, find_membership);
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

void reserve_area(const HostGroup& group) {
  const SegmentLayout& layout = group.layout;
  group.segment.reserve(layout.area(group.own_area), layout.point_to_point(0),
                        "the flags and short messages of a communicator");
}

void complete(Session::Parts& parts, const Config& config, const Options& options, int rank) {
  parts.name = options.name;
  parts.options = options;
  parts.config = config;
  parts.reproducible = options.reproducible;
  parts.timeout = options.timeout;
  parts.log = std::make_unique<OperationLog>();
  const Distances::Grouping grouping = parts.distances.grouping();
  parts.placement = Placement(parts.group->leader_of, grouping.group_of);
  parts.layout = parts.placement.layout(rank);
  parts.channels = make_channels(parts.layout, *parts.group);
  share_caches(*parts.group, parts.channels);
  parts.peer_segments = make_peer_segments(parts.layout.ranks, *parts.group);
  parts.sleepers = std::make_unique<Sleepers>(*parts.group, parts.layout.ranks);
  parts.health->tell_changes([sleepers = parts.sleepers.get()] { sleepers->tell_own(); });

  SelectorOptions selection;
  selection.channels = static_cast<int>(parts.group->layout.channels);
  selection.ring_bytes = parts.group->layout.large_ring_bytes;
  selection.all_channels = config.integer(Setting::kChannels) > 0;
  selection.reproducible = options.reproducible;
  selection.algorithm = config.text(Setting::kAlgorithm);
  selection.chunk_bytes = static_cast<std::size_t>(config.integer(Setting::kChunkBytes));
  selection.parameters = fit(parts.distances.measured(), parts.tuning,
                             parts.layout.groups > 1 ? std::optional(grouping.within) : std::nullopt)
                             .parameters;
  selection.parameters.turn_ns = turn_ns(parts.ranks_per_thread);
  selection.choices = parts.tuning.choices;
  parts.selector = std::make_unique<Selector>(parts.layout, selection);

  connect_everyone(parts);
}

namespace {

void set_up(Session::Parts& parts, Membership membership, const Config& config, const Options& options) {
  const DefaultArithmetic arithmetic;  // what is measured and chosen must not depend on the caller's
  const auto start = Clock::now();
  // Takes some 10 ms where the process has threads already: meanwhile the ranks meet.
  const JoiningStoreBarrier joining;
  const Deadline deadline = meeting_deadline(config);
  membership.name = options.name;

  parts.tuning = load_tuning(config.text(Setting::kTuningFile));
  parts.health = std::make_unique<Health>(membership.ranks);
  parts.control = ControlPlane::meet(membership, config, *parts.health);
  ControlPlane& control = *parts.control;
  if (membership.ranks > 1) {
    parts.opening = std::make_unique<OpeningWatch>(options.name, membership.rank, membership.ranks, *parts.health,
                                                   control, config.duration(Setting::kStallWarning));
  }
  EndOfOpening opening(parts.opening.get());

  opening.enters("looks at its machine", false);
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
    facts = exchange_facts(control, config, parts.tuning, membership.rank, deadline);
  } catch (const Error&) {
    remove_socket_files(request.key, request.directory, request.rank);
    throw;
  }
  request.hosts = facts.hosts;
  request.layout = segment_layout(config, membership.ranks, facts.ring_bytes);
  request.exchange = [&](std::span<const std::byte> mine) { return control.all_gather(mine, deadline); };
  request.given_up = [health = parts.health.get()] { return health->failed(); };
  opening.enters("shares memory", true);
  parts.group = std::make_unique<HostGroup>(join_host_group(request));
  reserve_area(*parts.group);
  const std::vector<RankFacts> known = facts.by_rank();
  parts.spin = ranks_per_thread(parts.group->members, known) == 1;
  parts.ranks_per_thread = most_ranks_per_thread(*parts.group, known);
  opening.enters("measures its host", true);
  parts.distances = find_distances(*parts.group, known, control, *parts.health, deadline);
  opening.enters("prepares its calls", false);
  complete(parts, config, options, membership.rank);

  if (parts.layout.hosts > 1) compare_choices(control, *parts.selector, deadline);
  parts.setup_seconds = seconds_since(start);
  if (const MeasuredHost& measured = parts.distances.measured(); measured.line_ns > 0) {
    log_info("communicator \"{}\": links {}; in the own cache {:.1f} ns, copies {:.1f} bytes a ns", options.name,
             describe(measured), measured.line_ns, measured.copy_rate);
  }
  log_info("communicator \"{}\": rank {} of {} ready in {:.1f} ms ({})", options.name, membership.rank,
           membership.ranks, parts.setup_seconds * 1e3,
           counted(static_cast<std::uint64_t>(parts.layout.hosts), "host"));
}

}  // namespace

std::unique_ptr<Session> open_session(const Membership& membership, const Config& config, const Options& options) {
  Session::Parts parts;
  bool ready = false;
  try {
    set_up(parts, membership, config, options);
    ready = true;
    return std::make_unique<Session>(std::move(parts));
  } catch (const ToldFailure&) {
    throw;
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    // A session that has its parts tells them itself.
    if (!ready || parts.control != nullptr) tell_others(parts, membership, config, error);
    throw ToldFailure(error);
  }
}

}  // namespace tutti
