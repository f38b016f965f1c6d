#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bootstrap/control_plane.h"
#include "bootstrap/introduction.h"

namespace tutti {

// What one rank of the tree may know and another not yet: who has left after which call, and why the communicator
// failed. Sent whole when two ranks become neighbours, and what is new of it when it becomes known.
struct TreeState {
  std::vector<std::pair<int, std::uint64_t>> left;  // rank, last call
  std::optional<Poison> poison;

  std::vector<std::byte> encode() const;
  // Throws Error(kMismatch) on anything malformed or a rank out of range.
  static TreeState decode(std::span<const std::byte> payload, int ranks);
  static std::size_t max_bytes(int ranks);
};

// A rank's question whether the others made the same call.
struct Comparison {
  int rank = 0;
  CallDescription call;

  std::vector<std::byte> encode() const;
  static Comparison decode(std::span<const std::byte> payload, int ranks);
};

}  // namespace tutti
