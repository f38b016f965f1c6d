#pragma once

#include <array>
#include <string_view>

#include "schedule/algorithm.h"
#include "schedule/layout.h"

namespace tutti {

// What TUTTI_ALGO asks for: "ring" (wherever there is one) or "all_reduce:ring;all_gather:pat". Blanks and empty items
// are ignored.
class AlgorithmOverride {
 public:
  // Throws Error(kInvalidSetting) that lists what is possible when an item names nothing, something that does not
  // apply to the layout, or something that cannot keep what `reproducible` promises. A name without a collective must
  // be possible for one collective at least; others keep their own choice.
  AlgorithmOverride(std::string_view text, const Layout& layout, bool reproducible);

  // Null: not overridden.
  const Algorithm* of(Collective collective) const { return chosen_[static_cast<std::size_t>(collective)]; }

 private:
  std::array<const Algorithm*, kCollectives> chosen_{};
};

// Why a row is no candidate for calls on this layout; empty when it is one.
std::string_view obstacle(const Algorithm& algorithm, const Layout& layout, bool reproducible);

}  // namespace tutti
