#include "schedule/write_tracker.h"

namespace tutti {

void WriteTracker::renew(int rank, std::size_t cells, std::size_t first) {
  std::vector<std::vector<Use>>& uses = uses_[static_cast<std::size_t>(rank)];
  uses.resize(first);
  uses.resize(cells);
}

void WriteTracker::lent(int rank, std::uint32_t cell, std::size_t first_reader, std::size_t readers) {
  for (std::size_t i = 0; i < readers; ++i) {
    uses_[static_cast<std::size_t>(rank)][cell].push_back({-1, 0, 0, first_reader + i});
  }
}

void WriteTracker::received(const Delivery& delivery, const ReadTracker& reads) {
  mark(seen_, delivery.sender, delivery.sending_step);
  if (lost(delivery.sender, delivery.sending_step)) return;
  Race race{delivery.sender,  delivery.sending_step, delivery.receiver, delivery.receiving_step, -1, 0,
            delivery.in_place};
  bool right = delivery.plain;
  if (right) {
    for (Use use : uses_[static_cast<std::size_t>(delivery.receiver)][delivery.cell]) {
      if (use.reader != ReadTracker::kNotRead) {
        const ReadTracker::Reader& reader = reads.reader(use.reader);
        use = {reader.rank, reader.tick, reader.step, use.reader};
      }
      // Tick 0: a peer that has not read yet.
      if (use.tick != 0 && delivery.clock[static_cast<std::size_t>(use.rank)] >= use.tick) continue;
      race.user = use.rank;
      race.using_step = use.step;
      right = false;
      break;
    }
  }
  if (right) return;
  mark(lost_, delivery.sender, delivery.sending_step);
  races_.push_back(race);
}

bool WriteTracker::has(const Marks& marks, int rank, int step) {
  const std::vector<bool>& steps = marks[static_cast<std::size_t>(rank)];
  return static_cast<std::size_t>(step) < steps.size() && steps[static_cast<std::size_t>(step)];
}

void WriteTracker::mark(Marks& marks, int rank, int step) {
  std::vector<bool>& steps = marks[static_cast<std::size_t>(rank)];
  if (steps.size() <= static_cast<std::size_t>(step)) steps.resize(static_cast<std::size_t>(step) + 1);
  steps[static_cast<std::size_t>(step)] = true;
}

}  // namespace tutti
