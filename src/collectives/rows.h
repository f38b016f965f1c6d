#pragma once

#include <string_view>

#include "collectives/fold.h"
#include "schedule/algorithm.h"

// The rows of the registry, as their algorithms' files define them.
namespace tutti {

struct Condition {
  bool (*applies)(const Layout&);
  std::string_view words;
};
inline constexpr Condition kAlways{[](const Layout&) { return true; }, {}};
inline constexpr Condition kSeveralHosts{[](const Layout& layout) { return layout.hosts > 1; }, "several hosts"};
inline constexpr Condition kSeveralGroups{[](const Layout& layout) { return layout.groups > 1; },
                                          "several NUMA nodes or caches with ranks on one host"};
inline constexpr Condition kPowerOfTwo{[](const Layout& layout) { return is_power_of_two(layout.ranks); },
                                       "a power of two of ranks"};

inline Chunking single_chunk(const Layout&) { return {}; }

// What a row says besides its steps.
struct RowTraits {
  Condition condition;
  Chunking (*chunking)(const Layout&);
  Cost (*cost)(const Layout&, double bytes);
  bool reproducible = false;
  bool at_once = false;
};

template <class Generator>
Algorithm make_row(std::string_view name, Collective collective, const RowTraits& traits) {
  Algorithm row;
  row.name = name;
  row.collective = collective;
  row.reproducible = traits.reproducible;
  row.at_once = traits.at_once;
  row.applies = traits.condition.applies;
  row.chunking = traits.chunking;
  row.steps = &Generator::steps;
  row.step = &Generator::step;
  row.cost = traits.cost;
  row.condition = traits.condition.words;
  return row;
}

// The same steps for blocks of different sizes. The verifier proves that they allow it: one chunk a step, whose block
// is named by its source or destination.
inline Algorithm vector_form(Algorithm row) {
  for (int c = 0; c < kCollectives; ++c) {
    const auto form = static_cast<Collective>(c);
    if (is_vector(form) && even_form(form) == row.collective) {
      row.collective = form;
      break;
    }
  }
  return row;
}

Algorithm one_shot_all_reduce();
Algorithm one_shot_all_gather();
Algorithm one_shot_broadcast();
Algorithm one_shot_reduce();
Algorithm one_shot_gather();
Algorithm one_shot_scatter();
Algorithm one_shot_all_to_all();
Algorithm one_shot_barrier();

Algorithm two_shot_all_reduce();
Algorithm two_shot_reduce_scatter();
Algorithm two_shot_broadcast();
Algorithm shared_copy_broadcast();

Algorithm ring_all_reduce();
Algorithm ring_all_gather();
Algorithm ring_reduce_scatter();

Algorithm recursive_doubling_all_reduce();
Algorithm recursive_doubling_all_gather();

Algorithm halving_doubling_all_reduce();
Algorithm recursive_halving_reduce_scatter();

Algorithm double_tree_all_reduce();

Algorithm binomial_broadcast();
Algorithm binomial_reduce();
Algorithm binomial_gather();
Algorithm binomial_scatter();

Algorithm chain_broadcast();
Algorithm chain_reduce();

Algorithm pat_all_gather();
Algorithm pat_reduce_scatter();

Algorithm bruck_all_gather();
Algorithm bruck_all_to_all();
Algorithm pairwise_all_to_all();
Algorithm dissemination_barrier();

Algorithm hierarchical_all_reduce();
Algorithm hierarchical_all_gather();
Algorithm hierarchical_reduce_scatter();
Algorithm hierarchical_broadcast();
Algorithm hierarchical_reduce();
Algorithm hierarchical_barrier();

Algorithm two_level_all_reduce();
Algorithm two_level_all_gather();
Algorithm two_level_reduce_scatter();
Algorithm two_level_broadcast();
Algorithm two_level_reduce();
Algorithm two_level_barrier();

}  // namespace tutti
