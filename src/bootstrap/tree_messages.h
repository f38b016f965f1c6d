#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/control_plane.h"
#include "bootstrap/introduction.h"

namespace tutti {

// Names one communicator among all that share a tree of control connections: the beginning of its public name.
using ScopeId = std::uint64_t;
ScopeId scope_id(const std::array<std::byte, 16>& communicator);

// A rank left a communicator. Ranks that are no members pass it on, and know from `members` when all have left.
struct Goodbye {
  ScopeId scope = 0;
  int members = 0;
  int rank = 0;  // in the communicator
  std::uint64_t last_call = 0;
};

// Who left the tree, and who a communicator on it: what is new of it, or all that is known. Ranks of the tree and of
// communicators are not the same numbers.
struct TreeNews {
  std::vector<int> departed;  // ranks of the tree
  std::vector<Goodbye> goodbyes;
  static constexpr std::size_t kMostGoodbyes = 1024;  // in one message

  bool empty() const { return departed.empty() && goodbyes.empty(); }
  std::vector<std::byte> encode() const;
  // Throws Error(kMismatch) on anything malformed or a rank out of range. `ranks` are those of the tree.
  static TreeNews decode(std::span<const std::byte> payload, int ranks);
  static std::size_t max_bytes(int ranks);
};

// A rank of the tree ended without leaving it, or was silent for too long.
struct Death {
  int rank = 0;
  int observer = 0;     // whose connection to it showed that
  std::string trouble;  // what was seen: "" for a connection that just ended

  std::vector<std::byte> encode() const;
  static Death decode(std::span<const std::byte> payload, int ranks);
  static constexpr std::size_t kMaxTrouble = 1024;
};

// Why a communicator failed.
struct ScopePoison {
  ScopeId scope = 0;
  Poison poison;

  std::vector<std::byte> encode() const;
  static ScopePoison decode(std::span<const std::byte> payload);
};

// A rank's question whether the others made the same call.
struct Comparison {
  ScopeId scope = 0;
  int rank = 0;  // in the communicator
  CallDescription call;

  std::vector<std::byte> encode() const;
  static Comparison decode(std::span<const std::byte> payload, int ranks);
};

// A rank cannot open a data connection to another and asks that one to open it.
struct CallBack {
  ScopeId scope = 0;
  int from = 0;  // ranks of the communicator
  int to = 0;
  std::string trouble;  // what happened to the attempts of `from`

  std::vector<std::byte> encode() const;
  // `ranks`: of the tree. Throws Error(kMismatch).
  static CallBack decode(std::span<const std::byte> payload, int ranks);
  static constexpr std::size_t kMaxTrouble = 1024;
};

}  // namespace tutti
