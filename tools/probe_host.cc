#include "probe_host.h"

#include <thread>
#include <utility>
#include <vector>

#include "communicator/distances.h"
#include "topology/machine.h"
#include "transport/shm/link_probe.h"
#include "transport/shm/segment.h"

namespace tutti {
namespace {

constexpr int kTries = 5;  // until all threads have run side by side

std::vector<LinkProbeResult> play(int ranks) {
  const auto count = static_cast<std::uint32_t>(ranks);
  SegmentLayout layout;
  layout.members = layout.ranks = count;
  const Segment segment = Segment::create(layout.segment_bytes());
  std::vector<std::uint32_t> areas;
  for (std::uint32_t area = 0; area < count; ++area) {
    segment.reserve(layout.area(area), layout.point_to_point(0), "what ranks measure with");
    areas.push_back(area);
  }
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> rated = {{0, 1}};
  std::vector<LinkProbeResult> results(count);
  std::vector<std::thread> threads;
  for (std::uint32_t own = 0; own < count; ++own) {
    threads.emplace_back([&, own] {
      results[own] = probe_links({&layout, segment.data(), areas, own, rated, [] { return false; }});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace

MeasuredHost probe_host(int ranks) {
  const Machine machine = discover_machine();
  if (ranks < 2 || static_cast<std::size_t>(ranks) > machine.usable.size()) return {};
  MeasuredHost measured;
  for (int turn = 0; turn < kTries; ++turn) {
    std::vector<Distances::Rank> known;
    for (LinkProbeResult& result : play(ranks)) {
      known.push_back({0, place_of_threads(machine, machine.usable), result.core, std::move(result.links)});
    }
    measured = Distances(std::move(known)).measured();
    for (const MeasuredLink& link : measured.links) {
      if (link.hop_ns > 0 && link.read_rate > 0) return measured;
    }
  }
  return measured;
}

}  // namespace tutti
