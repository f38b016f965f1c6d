#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "schedule/value.h"

namespace tutti {

// A message in the symbolic network: one value, shared by all its readers.
struct Message {
  std::vector<Value> values;
  std::vector<std::uint32_t> clock;  // the sender's, when it published; empty when clocks are off
  int sender = 0;
  int call = 0;
  int round = 0;
  int step = 0;
  int count = 0;
  int shape = 0;
  int stored_at = -1;      // the chunk of an output that it belongs at, as far as its sender says; -1: it does not
  std::size_t reads = 0;   // where the read tracker keeps what it knows of the readers
  std::uint64_t cost = 0;  // slot ring units
  int unread = 0;          // readers to come
};

// The resources that a schedule may wait for: lines of connections (`window` each way between two ranks) and one slot
// ring per rank, whose messages are freed in the order in which they were taken. A message in the ring is free when its
// slowest reader has consumed it.
//
// Used by one thread. Allocates while it warms up only.
class Network {
 public:
  Network(int ranks, int window, std::uint64_t ring_units);

  struct Arrival {
    std::uint32_t message = 0;
    std::uint32_t reader = 0;  // which of the message's readers this connection is
  };

  int waiting(int from, int to) const { return lines_[index(from, to)].count; }
  bool line_free(int from, int to) const { return lines_[index(from, to)].count < window_; }
  bool slot_free(int rank, std::uint64_t cost) const { return rings_[rank].used + cost <= ring_units_; }
  // REQUIRES: waiting(from, to) > 0.
  Arrival front(int from, int to) const;
  const Message& message(std::uint32_t index) const { return messages_[index]; }
  // The oldest message that holds the rank's ring, for explanations. REQUIRES: the ring is in use.
  std::uint32_t oldest_in_ring(int rank) const { return rings_[rank].live.front(); }

  // A message to be filled and published to each reader in turn.
  std::uint32_t begin_message(int sender, std::uint64_t cost, int readers);
  Message& fill(std::uint32_t message) { return messages_[message]; }
  void publish(std::uint32_t message, int to, std::uint32_t reader);
  void consume(int from, int to);

 private:
  struct Lines {
    std::uint16_t head = 0;
    std::uint16_t count = 0;
  };
  struct Ring {
    std::deque<std::uint32_t> live;
    std::uint64_t used = 0;
  };
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(to);
  }

  int ranks_;
  int window_;
  std::uint64_t ring_units_;
  std::vector<Lines> lines_;       // [from][to]
  std::vector<Arrival> arrivals_;  // [from][to][window]
  std::vector<Ring> rings_;        // [rank]
  std::deque<Message> messages_;
  std::vector<std::uint32_t> unused_;
};

}  // namespace tutti
