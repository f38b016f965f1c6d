#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti {

// What one rank wants of a split.
struct SplitWish {
  int color = -1;
  int key = 0;
  std::string name;
  bool reproducible = false;
  bool alone = false;           // it shares no memory
  std::uint64_t agreement = 0;  // of the settings that must agree
  std::string agreement_text;
  std::optional<Error> refusal;  // it cannot take part

  static constexpr std::size_t kMaxBytes = 1024;
  std::vector<std::byte> encode() const;
  // Throws Error(kMismatch).
  static SplitWish decode(std::span<const std::byte> bytes);
};

// How the ranks of a communicator split, made by each of them from the same wishes. Pure.
class SplitPlan {
 public:
  // Names a rank in messages.
  using Describe = std::function<std::string(int rank)>;

  SplitPlan(std::vector<SplitWish> wishes, const Describe& describe);

  // The ranks of the same colour in their new order; empty for a negative colour or one that cannot be made.
  const std::vector<int>& members(int rank) const { return groups_[group_of_[static_cast<std::size_t>(rank)]].members; }
  // Why its colour cannot be made.
  const std::optional<Error>& refusal(int rank) const {
    return groups_[group_of_[static_cast<std::size_t>(rank)]].refusal;
  }
  const SplitWish& wish(int rank) const { return wishes_[static_cast<std::size_t>(rank)]; }

 private:
  struct Group {
    std::vector<int> members;
    std::optional<Error> refusal;
  };
  std::optional<Error> disagreement(const std::vector<int>& members, const Describe& describe) const;

  std::vector<SplitWish> wishes_;      // by rank
  std::vector<Group> groups_;          // the first: no colour
  std::vector<std::size_t> group_of_;  // by rank
};

}  // namespace tutti
