#pragma once

#include <vector>

#include "schedule/placement.h"

namespace tutti {

// One host; two hosts in turns; a host for each rank; three uneven hosts; four hosts in no order; the same as groups of
// one host, where some group has several ranks.
inline std::vector<Placement> placements(int ranks) {
  std::vector<Placement> result;
  result.emplace_back(ranks);
  if (ranks == 1) return result;
  std::vector<int> in_turns, alone, uneven, mixed;
  for (int rank = 0; rank < ranks; ++rank) {
    in_turns.push_back(rank % 2);
    alone.push_back(rank);
    uneven.push_back(rank * 3 < ranks ? 0 : rank * 5 < ranks * 4 ? 1 : 2);
    mixed.push_back((rank * rank + 3 * rank / 2) % 4);
  }
  for (const std::vector<int>* hosts : {&in_turns, &alone, &uneven, &mixed}) result.emplace_back(*hosts);
  const std::vector<int> one_host(static_cast<std::size_t>(ranks), 0);
  for (const std::vector<int>* groups : {&in_turns, &uneven, &mixed}) result.emplace_back(one_host, *groups);
  return result;
}

}  // namespace tutti
