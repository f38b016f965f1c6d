#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/net/key.h"
#include "bootstrap/introduction.h"

namespace tutti {

// What survivors of a communicator say to each other while they agree on who they are; docs/bootstrap.md has the order.
// Ranks are those of the old communicator.
struct SurvivorMessage {
  enum class Kind : std::uint8_t {
    kJoin,      // to a possible leader: I take part. nonce: of the agreement that I was in and that came to nothing
    kLead,      // from the leader to a rank that has not joined it
    kWelcome,   // I lead
    kRedirect,  // leader: join that one
    kDecision,  // round, members, nonce and port of the root where they meet
    kAccept,    // round
    kCommit,    // round: all have accepted; meet
    kOpened,    // nonce: my part of the new communicator is ready
    kDone,      // nonce: everybody's is
    kRefused,   // refusal
  };
  Kind kind = Kind::kJoin;
  std::uint64_t round = 0;
  int leader = 0;
  Nonce nonce{};
  std::uint16_t port = 0;
  std::vector<int> members = {};  // ascending
  Poison refusal = {};

  std::vector<std::byte> encode() const;
  // Throws Error(kMismatch) on anything malformed or a rank out of range.
  static SurvivorMessage decode(std::span<const std::byte> payload, int ranks);
  static std::size_t max_bytes(int ranks) { return 128 + kMaxReasonBytes + 4 * static_cast<std::size_t>(ranks); }
};

}  // namespace tutti
