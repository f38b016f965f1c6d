#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/read_tracker.h"
#include "schedule/step.h"

namespace tutti {

// Decides which sends may be written where they belong, in the receiver's memory: those whose receiver only stores the
// message, at the same chunk of its output, and used that chunk before only in ways that publications order before the
// sender's step (vector clocks; credits do not count). Uses are the receiver's own loads and stores, and reads of its
// peers in its memory. A user's memory counts until the end of a round, because rounds touch different elements.
//
// Used by one thread.
class WriteTracker {
 public:
  // A send that must not be written, and why.
  struct Race {
    int rank = 0;  // the sender
    int step = 0;  // that sent
    int receiver = 0;
    int receiving_step = 0;
    int user = -1;  // whose use of the memory may come too late; -1: the receiver does something else with the message
    int using_step = 0;
    bool in_place = false;
  };

  explicit WriteTracker(int ranks)
      : uses_(static_cast<std::size_t>(ranks)),
        seen_(static_cast<std::size_t>(ranks)),
        lost_(static_cast<std::size_t>(ranks)) {}

  // A rank's memory has so many cells, of which those from `first` on begin a new life.
  void renew(int rank, std::size_t cells, std::size_t first);

  // A step of the rank itself reads or stores a cell of its memory.
  void used(int rank, std::uint32_t cell, std::uint32_t tick, int step) {
    uses_[static_cast<std::size_t>(rank)][cell].push_back({rank, tick, step, ReadTracker::kNotRead});
  }
  // Peers may read a cell where it lies; readers first_reader … of the read tracker.
  void lent(int rank, std::uint32_t cell, std::size_t first_reader, std::size_t readers);

  // What a step receives that a peer could write into its memory.
  struct Delivery {
    int sender = 0;
    int sending_step = 0;
    std::span<const std::uint32_t> clock;  // the sender's, when it published
    int receiver = 0;
    int receiving_step = 0;
    bool in_place = false;  // the receiver's call
    bool plain = false;     // it is stored as it is, where the sender has it in its own output
    std::uint32_t cell = 0;
  };
  void received(const Delivery& delivery, const ReadTracker& reads);

  // Whether some receiver of what a step sends must not have it written.
  bool lost(int rank, int step) const { return has(lost_, rank, step); }
  // Whether somebody has received what the step sent.
  bool seen(int rank, int step) const { return has(seen_, rank, step); }
  // The first race of each (rank, step) that lost.
  const std::vector<Race>& races() const { return races_; }

 private:
  struct Use {
    int rank;
    std::uint32_t tick;
    int step;
    std::size_t reader;  // of the read tracker, which then knows tick and step
  };
  using Marks = std::vector<std::vector<bool>>;  // [rank][step]

  static bool has(const Marks& marks, int rank, int step);
  static void mark(Marks& marks, int rank, int step);

  std::vector<std::vector<std::vector<Use>>> uses_;  // [rank][cell]
  Marks seen_;
  Marks lost_;
  std::vector<Race> races_;
};

}  // namespace tutti
