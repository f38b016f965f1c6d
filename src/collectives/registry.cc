#include "collectives/registry.h"

#include <array>

#include "collectives/rows.h"

namespace tutti {

std::span<const Algorithm> algorithms() {
  // clang-format off: one row a line
  static const std::array kRows = {
      one_shot_all_reduce(),
      two_shot_all_reduce(),
      hierarchical_all_reduce(),
      two_level_all_reduce(),
      ring_all_reduce(),
      recursive_doubling_all_reduce(),
      halving_doubling_all_reduce(),
      double_tree_all_reduce(),

      one_shot_all_gather(),
      hierarchical_all_gather(),
      two_level_all_gather(),
      ring_all_gather(),
      recursive_doubling_all_gather(),
      bruck_all_gather(),
      pat_all_gather(),

      two_shot_reduce_scatter(),
      hierarchical_reduce_scatter(),
      two_level_reduce_scatter(),
      ring_reduce_scatter(),
      recursive_halving_reduce_scatter(),
      pat_reduce_scatter(),

      one_shot_broadcast(),
      shared_copy_broadcast(),
      two_shot_broadcast(),
      hierarchical_broadcast(),
      two_level_broadcast(),
      binomial_broadcast(),
      chain_broadcast(),

      one_shot_reduce(),
      hierarchical_reduce(),
      two_level_reduce(),
      binomial_reduce(),
      chain_reduce(),

      one_shot_gather(),
      binomial_gather(),

      one_shot_scatter(),
      binomial_scatter(),

      one_shot_all_to_all(),
      pairwise_all_to_all(),
      bruck_all_to_all(),

      one_shot_barrier(),
      hierarchical_barrier(),
      two_level_barrier(),
      dissemination_barrier(),

      vector_form(one_shot_all_gather()),
      vector_form(ring_all_gather()),

      vector_form(two_shot_reduce_scatter()),
      vector_form(ring_reduce_scatter()),

      vector_form(one_shot_all_to_all()),
      vector_form(pairwise_all_to_all()),
  };
  // clang-format on
  return kRows;
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& row : algorithms()) {
    if (row.collective == collective && row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace tutti
