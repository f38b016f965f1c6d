#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/findings.h"
#include "bootstrap/tree_messages.h"

namespace tutti {

// A rank's question what all others of a communicator do; it goes outward along the tree.
struct SurveyQuestion {
  ScopeId scope = 0;
  int asker = 0;  // rank of the tree
  std::uint64_t number = 0;
  std::uint32_t patience_ms = 0;  // until when the receiver must have answered
  static constexpr std::uint32_t kMostPatience = 10'000;

  std::vector<std::byte> encode() const;
  // All of these throw Error(kMismatch) on anything malformed or out of range. `ranks` are those of the tree.
  static SurveyQuestion decode(std::span<const std::byte> payload, int ranks);
};

// What all ranks behind the sender answered, itself included.
struct SurveyAnswer {
  ScopeId scope = 0;
  int asker = 0;
  std::uint64_t number = 0;
  Findings findings;

  std::vector<std::byte> encode() const;
  static SurveyAnswer decode(std::span<const std::byte> payload, int ranks);
  static std::size_t max_bytes(int ranks);
};

// What the asker has made of the answers, for all who wait.
struct SurveyReport {
  ScopeId scope = 0;
  int asker = 0;  // rank of the communicator
  std::uint64_t number = 0;
  int blamed = -1;  // -1: nobody, or several
  std::string text;
  static constexpr std::size_t kMaxText = 1000;

  std::vector<std::byte> encode() const;
  static SurveyReport decode(std::span<const std::byte> payload, int ranks);
};

}  // namespace tutti
