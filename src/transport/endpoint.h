#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/line.h"

namespace tutti {

class Transport;
class PeerSegments;
class Sleepers;

// Connections between two ranks are numbered alike on both: the channels of the collectives first, then the three of
// point-to-point.
inline constexpr int kMaxChannels = 4;
inline constexpr int kMaxWindow = 8;

// A connection of a few ranks has a place of so many bytes for each message of its window: going round in them, both
// ends keep them in their first caches.
inline constexpr std::size_t kPlaceBytes = 2048;
inline constexpr std::uint32_t kMostRanksWithPlaces = 16;

// In a progress word: the rank's calls have failed. Their buffers are the caller's again, and what was read there
// without knowing that counts for nothing.
inline constexpr std::uint64_t kWithdrawn = ~std::uint64_t{0};

inline const Word kNobodySleeps{0};

// One rank's end of the two connections, one each way, that it shares with a peer on one channel.
//
// Whoever executes calls owns it and works on memory only: lines it publishes, lines it observes. When the peer maps
// the same memory (transport == nullptr) that is all there is. Otherwise the transport watches the outgoing lines,
// carries them and their slots over, and publishes what arrives in the incoming lines of this process; it learns of
// news through Transport::published and Transport::consumed.
//
// Messages of a connection are numbered from 1 and never reset. At most `window` are unacknowledged.
struct Endpoint {
  // What must be remembered of a message until it is acknowledged.
  struct Sent {
    std::uint64_t call = 0;                     // sequence number of the call it belongs to
    std::array<std::uint64_t, 2> ring_heads{};  // heads of the rank's slot rings before it took its slot
  };

  // The next message, as the step under way has found it in its line: each word of that was loaded once.
  struct Incoming {
    const std::byte* value = nullptr;  // where its bytes lie; null: they are at their destination
    std::uint64_t credit = 0;
    Way way = Way::kInline;
    bool offers = false;  // an Offer follows its notes
  };

  // Outgoing: written by this rank.
  Line* out = nullptr;
  const std::byte* out_slots = nullptr;  // what Descriptor::slot of outgoing lines counts from
  std::uint64_t sent = 0;                // number of the last message published
  std::uint64_t acknowledged = 0;        // the peer consumed up to here, as far as this rank has looked
  std::array<Sent, kMaxWindow> in_flight;

  // Incoming: written by the peer, or by the transport on its behalf.
  Line* in = nullptr;
  const std::byte* in_slots = nullptr;  // what Descriptor::slot counts from
  std::uint64_t in_slots_bytes = 0;     // how much is there: nothing beyond is ever read
  std::uint64_t received = 0;           // number of the last message consumed
  std::uint64_t told = 0;               // the peer was told so up to here
  Incoming incoming;

  Word* credit_out = nullptr;       // this rank -> peer: "consumed up to", where no line goes the other way
  const Word* credit_in = nullptr;  // peer -> this rank: the same
  const Word* taken_in = nullptr;   // the transport has read the messages up to here; null: the peer reads them itself
  const Word* progress_in = nullptr;   // the peer has finished all calls up to here, or kWithdrawn; null: it never says
  const Word* long_call_in = nullptr;  // the last long call that the peer has begun; null: it never says

  // Slots of its own, one of kPlaceBytes for each message of the window: where the first lies, counted as slots are …
  std::size_t places = 0;
  bool has_places = false;  // … if there are any

  const Line* notice_in =
      nullptr;  // where the peer's output lies, of its call `epoch`; null: it only says so in messages

  const Word* processor_in = nullptr;  // where the peer ran last: processor_word(); null: on another host

  PeerSegments* segments = nullptr;     // the peer's memory that this rank can read and write; null: none
  const Word* confirmed_in = nullptr;   // peer -> this rank: bit s is set once it maps segment s; null: never
  std::uint64_t confirmed = 0;          // the same, as far as this rank has looked
  Notes notes;                          // of the peer's last message that had some, if output_segment is not 0 …
  std::uint64_t notes_call = 0;         // … and the call that it belongs to
  std::byte* target = nullptr;          // where the step under way writes in the peer's output; null: nowhere
  std::uint64_t last_read = 0;          // number of the last message that the peer reads out of the caller's buffer
  Transport* transport = nullptr;       // null: shared memory
  Sleepers* sleepers = nullptr;         // wakes the peer, if it sleeps; null: it never does, or a transport wakes it
  const Word* asleep = &kNobodySleeps;  // Sleepers::asleep()
  std::uint32_t window = 2;             // lines each way, a power of two
  std::uint32_t hop_ns = 0;             // how long a line takes to the peer, measured when the ranks met; 0: unknown
  std::uint16_t peer = 0;
  std::uint8_t channel = 0;
};

// Where message number `number` lies in an endpoint's lines, and in in_flight.
inline std::size_t line_index(const Endpoint& endpoint, std::uint64_t number) { return number & (endpoint.window - 1); }

// Where the next message to this peer may put its bytes, counted as slots are. REQUIRES: has_places, can_publish().
inline std::size_t next_place(const Endpoint& endpoint) {
  return endpoint.places + line_index(endpoint, endpoint.sent + 1) * kPlaceBytes;
}

}  // namespace tutti
