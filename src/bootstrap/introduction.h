#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/net/key.h"
#include "bootstrap/rank_table.h"

namespace tutti {

// The version of everything that ranks say to each other. Ranks of different versions do not meet.
inline constexpr std::uint32_t kProtocolVersion = 5;

// What a rank tells the root about itself; its number and the number of ranks were part of the challenge.
struct Introduction {
  std::uint32_t version = kProtocolVersion;
  std::uint64_t agreement = 0;    // hash of the settings that must agree
  std::string agreement_text;     // and what they are, for the message when they do not
  std::uint32_t patience_ms = 0;  // how long this rank is still willing to wait
  HostEntry host;
  std::uint32_t pid = 0;
  std::uint16_t port = 0;  // of its own listener

  // Throws Error(kMismatch) for another version, before anything else is read, and for anything malformed.
  std::vector<std::byte> encode() const;
  static Introduction decode(std::span<const std::byte> payload);
};
inline constexpr std::size_t kMaxIntroduction = 64 * 1024;

// What the root answers when all are there.
struct Assignment {
  Nonce nonce{};    // of this communicator: all its later keys come from it
  int parent = -1;  // in the tree; none for rank 0
  std::vector<std::string> parent_addresses;
  std::uint16_t parent_port = 0;
  std::vector<std::byte> table;  // an encoded RankTable; for rank 0 only, which hands it down

  std::vector<std::byte> encode() const;
  static Assignment decode(std::span<const std::byte> payload, int ranks);
};

// The tree in which ranks are connected at first.
inline constexpr int kTreeArity = 4;
constexpr int tree_parent(int rank) { return rank == 0 ? -1 : (rank - 1) / kTreeArity; }
constexpr int tree_children(int rank, int ranks) {
  int count = 0;
  for (int i = 1; i <= kTreeArity; ++i) count += static_cast<long>(rank) * kTreeArity + i < ranks ? 1 : 0;
  return count;
}

// A failure as it travels: why, and which rank is at its root, if any.
struct Poison {
  ErrorCode code = ErrorCode::kRemote;
  int peer = Error::kNoPeer;
  std::string reason;

  std::vector<std::byte> encode() const;
  static Poison decode(ByteReader& reader);
  static Poison of(const Error& error) { return {error.code(), error.peer(), error.what()}; }
  Error error() const { return {code, reason, peer}; }
};
inline constexpr std::size_t kMaxReasonBytes = 8 * 1024;

}  // namespace tutti
