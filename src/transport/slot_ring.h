#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/endpoint.h"
#include "transport/read_once.h"

namespace tutti {

// A rank's ring of slots for one channel and size class. Slots are taken in the order of the rank's sends, as long as
// the messages are, and are free again when the slowest reader of every earlier message is done with it. Going round a
// ring that is longer than the readers' private caches keeps the writer off lines that they still hold.
//
// Owned by whoever executes the channel; one thread at a time. Never blocks, never allocates.
class SlotRing {
 public:
  SlotRing() = default;
  // [begin, begin + bytes) are offsets in the memory that Descriptor::slot counts in; multiples of the slot unit.
  // index: which of Endpoint::Sent::ring_heads is this ring's.
  SlotRing(std::uint64_t begin, std::uint64_t bytes, std::size_t index) : begin_(begin), bytes_(bytes), index_(index) {}

  std::uint64_t head() const { return head_; }
  std::uint64_t size() const { return bytes_; }

  // The offset of a slot of so many bytes, or nothing while readers still need the space. `users`: every endpoint
  // whose messages take slots here; how far they were read is looked up when the ring seems full.
  // REQUIRES: bytes <= size().
  template <class Endpoints>
  std::optional<std::uint64_t> take(std::uint64_t bytes, Endpoints& users);

 private:
  template <class Endpoints>
  void reclaim(Endpoints& users);

  std::uint64_t begin_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t head_ = 0;   // bytes ever taken, gaps at the end included
  std::uint64_t freed_ = 0;  // bytes ever given back
  std::size_t index_ = 0;
};

// Looks up how far the peer has consumed what this endpoint sent.
inline void refresh_acknowledged(Endpoint& endpoint) {
  const std::uint64_t credit = observe(*endpoint.credit_in);  // published by tell_credit(), or the transport
  if (credit > endpoint.acknowledged) endpoint.acknowledged = credit;
  // Lines that have arrived and wait for their step say more: this rank may be unable to take them before it has sent.
  for (std::uint64_t number = endpoint.received + 1; number <= endpoint.received + endpoint.window; ++number) {
    const Line& line = endpoint.in[line_index(endpoint, number)];
    if (observe(line.epoch) != number) break;  // published by publish_line()
    const std::uint64_t told = read_once(line.credit);
    if (told > endpoint.acknowledged) endpoint.acknowledged = told;
  }
  if (endpoint.progress_in == nullptr) return;
  const std::uint64_t finished = observe(*endpoint.progress_in);  // published when the peer's call ended
  while (endpoint.acknowledged < endpoint.sent &&
         endpoint.in_flight[line_index(endpoint, endpoint.acknowledged + 1)].call <= finished) {
    ++endpoint.acknowledged;
  }
}

// Up to which message nobody reads this rank's memory any more. A transport hands over copies: its peer may keep the
// acknowledgement for as long as it is in no call, and nobody else shall wait for that.
inline std::uint64_t read_up_to(Endpoint& endpoint) {
  refresh_acknowledged(endpoint);
  if (endpoint.taken_in == nullptr) return endpoint.acknowledged;
  return std::max(endpoint.acknowledged, observe(*endpoint.taken_in));  // published by the transport
}

template <class Endpoints>
std::optional<std::uint64_t> SlotRing::take(std::uint64_t bytes, Endpoints& users) {
  bytes = (bytes + Descriptor::kSlotUnit - 1) / Descriptor::kSlotUnit * Descriptor::kSlotUnit;
  std::uint64_t start = head_;
  const std::uint64_t until_end = bytes_ - start % bytes_;
  if (bytes > until_end) start += until_end;
  if (start + bytes - freed_ > bytes_) {
    reclaim(users);
    if (start + bytes - freed_ > bytes_) return std::nullopt;
  }
  head_ = start + bytes;
  return begin_ + start % bytes_;
}

template <class Endpoints>
void SlotRing::reclaim(Endpoints& users) {
  std::uint64_t needed = head_;
  for (Endpoint& endpoint : users) {
    if (endpoint.sent == endpoint.acknowledged) continue;
    const std::uint64_t read = read_up_to(endpoint);
    if (endpoint.sent == read) continue;
    const auto& oldest = endpoint.in_flight[line_index(endpoint, read + 1)];
    if (oldest.ring_heads[index_] < needed) needed = oldest.ring_heads[index_];
  }
  freed_ = needed;
}

}  // namespace tutti
