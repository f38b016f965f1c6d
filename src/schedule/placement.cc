#include "schedule/placement.h"

#include <unordered_map>

namespace tutti {

Placement::Placement(int ranks) : Placement(std::vector<int>(static_cast<std::size_t>(ranks), 0)) {}

Placement::Placement(const std::vector<int>& host_of) : ranks_(static_cast<int>(host_of.size())) {
  std::unordered_map<int, std::uint16_t> numbers;
  for (const int value : host_of) {
    host_of_.push_back(numbers.emplace(value, static_cast<std::uint16_t>(numbers.size())).first->second);
  }
  hosts_ = static_cast<int>(numbers.size());

  host_first_.assign(static_cast<std::size_t>(hosts_) + 1, 0);
  for (const std::uint16_t host : host_of_) ++host_first_[host + 1u];
  for (int host = 0; host < hosts_; ++host) {
    host_first_[host + 1] = static_cast<std::uint16_t>(host_first_[host + 1] + host_first_[host]);
  }
  by_host_.resize(host_of_.size());
  std::vector<std::uint16_t> next(host_first_.begin(), host_first_.end());
  for (int rank = 0; rank < ranks_; ++rank) by_host_[next[host_of_[rank]]++] = static_cast<std::uint16_t>(rank);
}

Layout Placement::layout(int rank) const {
  return {ranks_, rank, hosts_, host_of_.data(), by_host_.data(), host_first_.data()};
}

Placement even_placement(int ranks, int hosts) {
  std::vector<int> host_of;
  for (int host = 0; host < hosts; ++host) {
    const int size = ranks / hosts + (host < ranks % hosts ? 1 : 0);
    host_of.insert(host_of.end(), static_cast<std::size_t>(size), host);
  }
  return Placement(host_of);
}

}  // namespace tutti
