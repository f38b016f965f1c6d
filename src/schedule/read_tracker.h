#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/value.h"

namespace tutti {

// Decides which sends may be read where they lie, in the sender's memory: those whose memory no later step of the
// sender overwrites, unless publications order that step after the readers' steps (vector clocks; credits do not
// count). A user's memory counts until the end of a round, because rounds touch different elements; scratch until the
// end of the call.
//
// Used by one thread.
class ReadTracker {
 public:
  static constexpr std::uint64_t kNotRead = ~std::uint64_t{0};

  struct Reader {
    int rank = 0;
    std::uint32_t tick = 0;  // the reader's clock when it read; 0: it has not yet
    int step = 0;
    Value result;  // what the reader's step made of the first chunk
  };

  // A step that overwrites what another rank may still be reading.
  struct Race {
    int rank = 0;  // the sender
    int round = 0;
    int step = 0;  // that sent
    int overwriting_step = 0;
    std::size_t reader = 0;  // see reader()
    std::uint32_t cell = 0;  // of the sender's memory
    Value sent;
    Value overwritten;
  };

  explicit ReadTracker(int ranks) : heads_(static_cast<std::size_t>(ranks)), lost_(static_cast<std::size_t>(ranks)) {}

  // A rank's memory has so many cells, of which [first, first + count) begin a new life.
  void renew(int rank, std::size_t cells, std::size_t first, std::size_t count);

  // A step sends the cells [first, first + values.size()) to readers; returns where they report.
  std::size_t sent(int rank, int round, int step, std::uint32_t first, std::span<const Value> values,
                   std::span<const int> readers);
  void received(std::size_t reader, std::uint32_t tick, int step, const Value& result);
  // A step stores a value in a cell. clock: the rank's, with the messages of this step.
  void stored(int rank, int step, std::uint32_t cell, const Value& value, std::span<const std::uint32_t> clock);

  const Reader& reader(std::size_t index) const { return readers_[index]; }
  // Whether what a step sends must not be read in place.
  bool lost(int rank, int step) const;
  // The first race of each (rank, step) that lost.
  const std::vector<Race>& races() const { return races_; }

 private:
  struct Send {
    int rank;
    int round;
    int step;
    std::size_t first_reader;
    std::size_t readers;
  };
  // Sends whose values lie in one cell, linked.
  struct Link {
    std::size_t send;
    std::int64_t next;
    Value value;
  };

  std::vector<Send> sends_;
  std::vector<Reader> readers_;
  std::vector<Link> links_;
  std::vector<std::vector<std::int64_t>> heads_;  // [rank][cell]; -1: none
  std::vector<std::vector<bool>> lost_;           // [rank][step]
  std::vector<Race> races_;
};

}  // namespace tutti
