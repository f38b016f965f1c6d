#include "schedule/placement.h"

#include <unordered_map>

namespace tutti {

Placement::Parts::Parts(const std::vector<int>& part_of) {
  std::unordered_map<int, std::uint16_t> numbers;
  for (const int value : part_of) {
    of.push_back(numbers.emplace(value, static_cast<std::uint16_t>(numbers.size())).first->second);
  }
  count = static_cast<int>(numbers.size());

  first.assign(static_cast<std::size_t>(count) + 1, 0);
  for (const std::uint16_t part : of) ++first[part + 1u];
  for (std::size_t part = 0; part < numbers.size(); ++part) {
    first[part + 1] = static_cast<std::uint16_t>(first[part + 1] + first[part]);
  }
  ranks.resize(of.size());
  std::vector<std::uint16_t> next(first.begin(), first.end());
  for (std::size_t rank = 0; rank < of.size(); ++rank) ranks[next[of[rank]]++] = static_cast<std::uint16_t>(rank);
}

Placement::Placement(int ranks) : Placement(std::vector<int>(static_cast<std::size_t>(ranks), 0)) {}

Placement::Placement(const std::vector<int>& host_of) : Placement(host_of, {}) {}

Placement::Placement(const std::vector<int>& host_of, const std::vector<int>& group_of)
    : ranks_(static_cast<int>(host_of.size())),
      hosts_(host_of),
      groups_(hosts_.count > 1 || group_of.empty() ? std::vector<int>(host_of.size(), 0) : group_of) {}

Layout Placement::layout(int rank) const {
  Layout layout{ranks_, rank, hosts_.count, hosts_.of.data(), hosts_.ranks.data(), hosts_.first.data()};
  layout.groups = groups_.count;
  layout.group_of = groups_.of.data();
  layout.by_group = groups_.ranks.data();
  layout.group_first = groups_.first.data();
  return layout;
}

namespace {

std::vector<int> even_parts(int ranks, int parts) {
  std::vector<int> part_of;
  for (int part = 0; part < parts; ++part) {
    const int size = ranks / parts + (part < ranks % parts ? 1 : 0);
    part_of.insert(part_of.end(), static_cast<std::size_t>(size), part);
  }
  return part_of;
}

}  // namespace

Placement even_placement(int ranks, int hosts) { return Placement(even_parts(ranks, hosts)); }

Placement grouped_placement(int ranks, int groups) {
  return {std::vector<int>(static_cast<std::size_t>(ranks), 0), even_parts(ranks, groups)};
}

}  // namespace tutti
