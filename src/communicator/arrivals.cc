#include "communicator/arrivals.h"

#include "transport/shm/shm_endpoint.h"

namespace tutti {

Arrivals::Arrivals(const HostGroup& group, int ranks)
    : counters_(std::make_unique<Counter[]>(static_cast<std::size_t>(ranks))), ranks_(static_cast<std::size_t>(ranks)) {
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    if (group.areas[i] == group.own_area) continue;
    others_.push_back({group.members[i], &started_word(group.layout, group.segment.data(), group.areas[i])});
  }
}

int Arrivals::find_late(std::uint64_t sequence, std::size_t& next) const {
  for (; next < others_.size(); ++next) {
    if (peek(*others_[next].started) < sequence) return others_[next].rank;  // noted by HostExecutor::start()
  }
  return -1;
}

void Arrivals::count(int rank, std::chrono::nanoseconds waited) {
  Counter& counter = counters_[static_cast<std::size_t>(rank)];
  add(counter.calls, 1);
  add(counter.ns, static_cast<std::uint64_t>(waited.count()));
}

std::vector<Statistics::Waited> Arrivals::read() const {
  std::vector<Statistics::Waited> waited(ranks_);
  for (std::size_t r = 0; r < ranks_; ++r) {
    waited[r] = {peek(counters_[r].calls), static_cast<double>(peek(counters_[r].ns)) * 1e-9};
  }
  return waited;
}

}  // namespace tutti
