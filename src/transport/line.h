#pragma once

#include <cstddef>
#include <cstdint>

#include "base/sync.h"

namespace tutti {

// How the bytes of one message travel. The sender alone decides and says so in the line; the receiver does what the
// line says and assumes nothing.
enum class Way : std::uint8_t {
  kInline,   // in the line's own payload
  kSlot,     // in the sender's slot ring
  kRead,     // in the sender's own buffer: the payload holds a Place
  kWritten,  // already in the receiver's buffer
};

// Way, slot and length of a message in one word. Slots are counted in units of 64 bytes from the start of the memory
// that the receiver knows as the sender's slots.
struct Descriptor {
  Way way = Way::kInline;
  std::uint32_t slot = 0;    // 30 bits
  std::uint32_t length = 0;  // bytes

  static constexpr std::size_t kSlotUnit = 64;

  constexpr std::uint64_t pack() const {
    return static_cast<std::uint64_t>(length) << 32 | static_cast<std::uint64_t>(slot) << 2 |
           static_cast<std::uint64_t>(way);
  }
  static constexpr Descriptor unpack(std::uint64_t word) {
    return {static_cast<Way>(word & 3), static_cast<std::uint32_t>(word >> 2 & 0x3FFFFFFF),
            static_cast<std::uint32_t>(word >> 32)};
  }
};

// Where a value lies that is read in place: a segment known to the reader, and the offset of its first byte. Segment
// kOwnMemory is for a transport, which reads on the sender's side: the offset is then an address in this process.
struct Place {
  static constexpr std::uint64_t kOwnMemory = 0;

  std::uint64_t segment;
  std::uint64_t offset;
};

// A segment that the sender would like the receiver to read and write in, which does not map it yet. The receiver opens
// it through the sender's process and checks the nonce.
struct Offer {
  std::uint64_t segment = 0;  // 0: no offer
  std::uint32_t process = 0;
  std::int32_t descriptor = -1;
  std::uint64_t bytes = 0;
  std::uint64_t nonce = 0;
};
static_assert(sizeof(Offer) == 32);

// The payload of a message between ranks of one host that is not inline.
struct Notes {
  static constexpr std::uint8_t kOffers = 1;   // an Offer follows
  static constexpr std::uint8_t kInPlace = 2;  // the sender's call is in place
  static constexpr std::uint64_t kEndUnit = 4096;

  Place value{};                    // kRead: where it lies
  std::uint64_t output_offset = 0;  // where the sender's output for this call begins, for peers that may write there …
  std::uint32_t output_end = 0;     // … before this many units of the segment …
  std::uint16_t output_missing = 0;  // … and not in so many bytes at its beginning …
  std::uint8_t output_segment = 0;   // … 0: nobody may
  std::uint8_t flags = 0;
};
static_assert(sizeof(Notes) == 32 && offsetof(Notes, value) == 0);  // with the words before it, one cache line

// One message of a connection, as its writer publishes it: a pair of cache lines. Message number m of a connection
// lies in line m % window. The writer fills everything else first and publishes the epoch last; the reader, who
// observes the epoch it waits for, may read the rest until it has acknowledged the message: each word once
// (read_once.h).
struct alignas(128) Line {
  static constexpr std::size_t kPayload = 96;
  static constexpr std::size_t kPayloadOfFirst = 32;  // so much of it lies in the first of the two cache lines

  Word epoch;                // number of the message; 0: nothing yet
  std::uint64_t credit;      // the writer has consumed the reverse connection up to here
  std::uint64_t signature;   // of the call, combined with its sequence number
  std::uint64_t descriptor;  // Descriptor::pack()
  std::byte payload[kPayload];
};
static_assert(sizeof(Line) == 128);
static_assert(sizeof(Notes) + sizeof(Offer) <= Line::kPayload);
static_assert(offsetof(Line, epoch) == 0 && offsetof(Line, credit) == 8 && offsetof(Line, signature) == 16);
static_assert(offsetof(Line, descriptor) == 24 && offsetof(Line, payload) == 32);
static_assert(offsetof(Line, payload) + Line::kPayloadOfFirst == 64);

// A word with a pair of lines of its own.
struct alignas(128) PaddedWord {
  Word word;
};
static_assert(sizeof(PaddedWord) == 128);

}  // namespace tutti
