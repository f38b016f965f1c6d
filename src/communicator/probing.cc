#include "communicator/probing.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tutti {
namespace {

// The ranks of each host, by its leader.
std::vector<std::vector<int>> members_of_hosts(const HostGroup& group, std::size_t ranks) {
  std::vector<std::vector<int>> members_of(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    members_of[static_cast<std::size_t>(group.leader_of[rank])].push_back(static_cast<int>(rank));
  }
  return members_of;
}

// Whether some host has several ranks that may spin.
bool somebody_measures(const HostGroup& group, std::span<const RankFacts> facts) {
  return std::ranges::any_of(members_of_hosts(group, facts.size()), [facts](const std::vector<int>& members) {
    return members.size() > 1 && ranks_per_thread(members, facts) == 1;
  });
}

LinkProbeResult probe(const HostGroup& group, std::span<const RankFacts> facts, const Health& health) {
  std::vector<CpuPlace> places;
  for (const int member : group.members) places.push_back(facts[static_cast<std::size_t>(member)].place);
  const auto rated = rated_pairs(places);
  LinkProbeRequest request;
  request.layout = &group.layout;
  request.segment = group.segment.data();
  request.areas = group.areas;
  request.own = static_cast<std::uint32_t>(std::ranges::find(group.areas, group.own_area) - group.areas.begin());
  request.rated = rated;
  request.given_up = [&health] { return health.failed(); };
  return probe_links(request);
}

}  // namespace

int ranks_per_thread(std::span<const int> members, std::span<const RankFacts> facts) {
  std::set<int> usable;
  for (const int member : members) {
    const auto& threads = facts[static_cast<std::size_t>(member)].usable;
    usable.insert(threads.begin(), threads.end());
    if (members.size() <= usable.size()) return 1;
  }
  const std::size_t threads = std::max<std::size_t>(usable.size(), 1);
  return std::max(static_cast<int>((members.size() + threads - 1) / threads), 1);
}

int most_ranks_per_thread(const HostGroup& group, std::span<const RankFacts> facts) {
  int most = 1;
  for (const auto& members : members_of_hosts(group, facts.size()))
    most = std::max(most, ranks_per_thread(members, facts));
  return most;
}

Distances find_distances(const HostGroup& group, std::span<const RankFacts> facts, ControlPlane& control,
                         const Health& health, Deadline deadline) {
  const bool measured = somebody_measures(group, facts);
  const bool one_place =
      std::ranges::all_of(facts, [&facts](const RankFacts& fact) { return fact.place == facts.front().place; });
  if (!measured && one_place) return {};
  std::vector<Distances::Rank> ranks(facts.size());
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    ranks[rank].host = group.leader_of[rank];
    ranks[rank].place = facts[rank].place;
  }
  if (!measured) return Distances(std::move(ranks));

  std::vector<std::byte> mine;
  if (group.members.size() > 1 && ranks_per_thread(group.members, facts) == 1) {
    mine = encode_measurements(probe(group, facts, health), group.members);
  }
  std::size_t from = 0;
  for (const auto& answer : control.all_gather(mine, deadline)) {
    try {
      decode_measurements(answer, static_cast<int>(facts.size()), ranks[from]);
    } catch (const Error& error) {
      const int rank = static_cast<int>(from);
      throw Error(error.code(), fmt::format("{}: {}", control.describe(rank), error.what()), rank);
    }
    ++from;
  }
  return Distances(std::move(ranks));
}

}  // namespace tutti
