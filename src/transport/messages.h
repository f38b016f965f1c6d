#pragma once

#include <cstring>

#include "transport/endpoint.h"
#include "transport/read_once.h"
#include "transport/slot_ring.h"
#include "transport/transport.h"

namespace tutti {

// What the two ends of a connection do with lines. All of it inline: these are the instructions between a rank and the
// cache line that its peer waits for.

// Wakes the peer, which may sleep. REQUIRES: endpoint.sleepers.
void wake_peer(const Endpoint& endpoint);

// After everything published in shared memory that the peer may wait for: wakes it if it sleeps. A load of a line that
// stays in the cache, while nobody of the host does.
inline void tell_peer(const Endpoint& endpoint) {
  if (glance(*endpoint.asleep) != 0) wake_peer(endpoint);  // with the announcements of Sleepers
}

// Whether a line is free for the next message to this peer.
inline bool can_publish(Endpoint& endpoint) {
  if (endpoint.sent - endpoint.acknowledged < endpoint.window) return true;
  refresh_acknowledged(endpoint);
  return endpoint.sent - endpoint.acknowledged < endpoint.window;
}

// The line of the next message to this peer: fill its payload, then publish_line(). REQUIRES: can_publish().
inline Line& next_line(Endpoint& endpoint) { return endpoint.out[line_index(endpoint, endpoint.sent + 1)]; }

inline void publish_line(Endpoint& endpoint, Descriptor descriptor, std::uint64_t signature,
                         const Endpoint::Sent& sent) {
  const std::uint64_t number = endpoint.sent + 1;
  Line& line = endpoint.out[line_index(endpoint, number)];
  line.credit = endpoint.received;
  line.signature = signature;
  line.descriptor = descriptor.pack();
  endpoint.in_flight[line_index(endpoint, number)] = sent;
  endpoint.told = endpoint.received;
  endpoint.sent = number;
  publish(line.epoch, number);  // observed by arrived() at the peer, or by the transport
  if (endpoint.transport != nullptr) return endpoint.transport->published(endpoint);
  tell_peer(endpoint);
}

// Copies a value that travels in a line. Of a memcpy of so few bytes that nobody knows beforehand, compilers make an
// instruction that takes longer than all the rest. From its end: the second cache line of a message is written before
// the first, which the peer keeps looking at, and may fetch in between. REQUIRES: bytes <= Line::kPayload.
inline void copy_inline(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes >= 16) {
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
    for (std::size_t left = (bytes - 1) / 16; left > 0; --left) {
      std::memcpy(to + 16 * (left - 1), from + 16 * (left - 1), 16);
    }
  } else if (bytes >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (std::size_t at = 0; at < bytes; ++at) to[at] = from[at];
  }
}

// The line of the next message from this peer, whether that is there or not.
inline const Line& next_line_in(const Endpoint& endpoint) {
  return endpoint.in[line_index(endpoint, endpoint.received + 1)];
}

// The next message from this peer, or null while it is not there. One that was there may seem to be gone again: a peer
// whose memory is damaged writes any epoch.
inline const Line* arrived(const Endpoint& endpoint) {
  const Line& line = next_line_in(endpoint);
  return observe(line.epoch) == endpoint.received + 1 ? &line : nullptr;  // published by publish_line()
}

// For a reader that waits for a value longer than Line::kPayloadOfFirst: asks for the second cache line of the next
// message while it looks at the first, and not only when that has come.
inline void fetch_second_line(const Endpoint& endpoint) {
  __builtin_prefetch(next_line_in(endpoint).payload + Line::kPayloadOfFirst);
}

// Whether the bytes of a message in a slot lie where the peer's slots are. A peer whose memory is damaged may have
// written any number.
inline bool lies_in_slots(const Endpoint& endpoint, const Descriptor& descriptor) {
  return std::uint64_t{descriptor.slot} * Descriptor::kSlotUnit + descriptor.length <= endpoint.in_slots_bytes;
}

// The message has been read: its line and slot are the writer's again as soon as it learns of it, from the next line of
// the reverse connection or from settle_credit().
inline void take_message(Endpoint& endpoint, std::uint64_t credit) {
  if (credit > endpoint.acknowledged) endpoint.acknowledged = credit;
  ++endpoint.received;
}
inline void take_message(Endpoint& endpoint, const Line& line) { take_message(endpoint, read_once(line.credit)); }

// Tells the peer at once.
inline void tell_credit(Endpoint& endpoint) {
  if (endpoint.transport != nullptr) {
    endpoint.transport->consumed(endpoint);
  } else {
    publish(*endpoint.credit_out, endpoint.received);  // observed by refresh_acknowledged() at the peer
    tell_peer(endpoint);
  }
  endpoint.told = endpoint.received;
}

// Tells the peer what it has not been told by a line: once half a window is owed, so that one-way traffic flows. (What
// is owed at the end of a call is covered by the progress word, or by Transport::flush.)
inline void settle_credit(Endpoint& endpoint) {
  if (endpoint.transport != nullptr) {
    endpoint.transport->consumed(endpoint);
  } else if ((endpoint.received - endpoint.told) * 2 >= endpoint.window) {
    tell_credit(endpoint);
  }
}

}  // namespace tutti
