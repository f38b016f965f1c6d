#include "schedule/read_tracker.h"

#include <algorithm>

namespace tutti {

void ReadTracker::renew(int rank, std::size_t cells, std::size_t first, std::size_t count) {
  std::vector<std::int64_t>& heads = heads_[rank];
  heads.resize(cells, -1);
  std::fill_n(heads.begin() + static_cast<std::ptrdiff_t>(first), count, -1);
}

std::size_t ReadTracker::sent(int rank, int round, int step, std::uint32_t first, std::span<const Value> values,
                              std::span<const int> readers) {
  const std::size_t first_reader = readers_.size();
  sends_.push_back({rank, round, step, first_reader, readers.size()});
  for (const int reader : readers) readers_.push_back({reader, 0, 0, {}});
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t& head = heads_[rank][first + i];
    links_.push_back({sends_.size() - 1, head, values[i]});
    head = static_cast<std::int64_t>(links_.size()) - 1;
  }
  return first_reader;
}

void ReadTracker::received(std::size_t reader, std::uint32_t tick, int step, const Value& result) {
  readers_[reader].tick = tick;
  readers_[reader].step = step;
  readers_[reader].result = result;
}

void ReadTracker::stored(int rank, int step, std::uint32_t cell, const Value& value,
                         std::span<const std::uint32_t> clock) {
  std::int64_t& head = heads_[rank][cell];
  for (std::int64_t i = head; i >= 0; i = links_[i].next) {
    const Send& send = sends_[links_[i].send];
    for (std::size_t reader = send.first_reader; reader < send.first_reader + send.readers; ++reader) {
      const Reader& entry = readers_[reader];
      // What happened before this step has already run, in any order of running the steps.
      if (entry.tick != 0 && clock[entry.rank] >= entry.tick) continue;
      if (!lost(rank, send.step)) {
        std::vector<bool>& lost_steps = lost_[rank];
        if (lost_steps.size() <= static_cast<std::size_t>(send.step)) lost_steps.resize(send.step + 1u);
        lost_steps[send.step] = true;
        races_.push_back({rank, send.round, send.step, step, reader, cell, links_[i].value, value});
      }
      break;
    }
  }
  // Later stores come after this one, so they add nothing.
  head = -1;
}

bool ReadTracker::lost(int rank, int step) const {
  const std::vector<bool>& steps = lost_[rank];
  return static_cast<std::size_t>(step) < steps.size() && steps[step];
}

}  // namespace tutti
