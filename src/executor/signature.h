#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "schedule/algorithm.h"
#include "tutti/types.h"

namespace tutti {

// What a call is, apart from its buffers: what all ranks must agree on.
struct CallShape {
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kU8;
  ReduceOp::Kind op = ReduceOp::Kind::kSum;
  std::uint32_t root = 0;   // of a vector form: digest_of() the counts
  std::uint64_t count = 0;  // of a vector form: of all blocks; 0 in all_to_all_v, where no rank knows them all
};

// Scrambles all bits of a word (the finaliser of MurmurHash3, by Austin Appleby, public domain).
constexpr std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xFF51AFD7ED558CCDull;
  value ^= value >> 33;
  value *= 0xC4CEB9FE1A85EC53ull;
  return value ^ value >> 33;
}

// A call's collective, type, operation and root in one word.
constexpr std::uint64_t kinds_of(const CallShape& shape) {
  return static_cast<std::uint64_t>(shape.collective) << 48 | static_cast<std::uint64_t>(shape.type) << 40 |
         static_cast<std::uint64_t>(shape.op) << 32 | shape.root;
}
constexpr std::uint64_t hash_of(std::uint64_t kinds, std::uint64_t count) { return mix(mix(kinds + 1) ^ count); }

// The word that every message of a call carries: 48 bits of hash over the call's shape and sequence number, and the low
// 16 bits of that number. Two ranks that disagree on a call see it before anything of a message is stored.
constexpr std::uint64_t signature_of(std::uint64_t shape_hash, std::uint64_t sequence_hash, std::uint64_t sequence) {
  return (shape_hash ^ sequence_hash) << 16 | (sequence & 0xFFFF);
}
constexpr std::uint64_t signature_of(const CallShape& shape, std::uint64_t sequence) {
  return signature_of(hash_of(kinds_of(shape), shape.count), mix(sequence), sequence);
}

// What two ranks' lists of counts are compared by.
constexpr std::uint32_t digest_of(std::span<const std::size_t> counts) {
  std::uint64_t digest = counts.size();
  for (const std::size_t count : counts) digest = mix(digest ^ count) + 1;
  return static_cast<std::uint32_t>(digest >> 32);
}

// In all_to_all_v two ranks agree on the counts of their own pair only: its messages carry the call's signature with
// this count added to the hash, so that a receiver knows what a sender with another count has said.
constexpr std::uint64_t with_count(std::uint64_t call_signature, std::uint64_t count) {
  return call_signature + (count << 16);
}
// The count in it, modulo 2^48. REQUIRES: it is a signature of the same call.
constexpr std::uint64_t count_in(std::uint64_t signature, std::uint64_t call_signature) {
  return (signature - call_signature) >> 16;
}

// The sequence number of a signature's call, given one that is within 2^15 of it.
constexpr std::uint64_t sequence_near(std::uint64_t signature, std::uint64_t sequence) {
  const auto distance =
      static_cast<std::int16_t>(static_cast<std::uint16_t>((signature & 0xFFFF) - (sequence & 0xFFFF)));
  return sequence + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
}

}  // namespace tutti
