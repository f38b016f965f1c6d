#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace tutti {

inline constexpr std::size_t kMaxContribution = 64 * 1024;
// The largest message of an exchange.
constexpr std::size_t gather_max_bytes(int ranks) {
  return 8 + static_cast<std::size_t>(ranks) * (8 + kMaxContribution);
}

// One rank's part in exchanges where everybody gets everybody's bytes: parts go up the tree until the root has all, and
// come down together. One at a time. Pure: messages in, messages out.
class Gathering {
 public:
  Gathering(int rank, int ranks);

  // Begins the next exchange.
  void contribute(std::span<const std::byte> mine);
  // From a child. Throws Error(kMismatch) on anything that does not belong to this exchange.
  void take(std::span<const std::byte> parts);

  // Once everything from below is there: the message to send towards the root, and at the root the one to send down.
  std::optional<std::vector<std::byte>> ready();
  // Whose message this rank waits for in an exchange that it takes part in: a child's, or what its parent sends down.
  // -1: nobody's.
  int waits_for() const;
  // The message that comes down, taken apart by rank. Ends the exchange.
  std::vector<std::vector<std::byte>> finish(std::span<const std::byte> all);

 private:
  const int rank_;
  const int ranks_;
  const int below_;  // ranks in this subtree, with this one
  std::uint64_t round_ = 1;
  bool contributed_ = false;
  bool sent_ = false;  // everything from below
  int collected_ = 0;
  std::vector<bool> present_;  // whose parts were collected
  ByteWriter parts_;
};

}  // namespace tutti
