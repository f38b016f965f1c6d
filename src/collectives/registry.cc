#include "collectives/registry.h"

#include <array>

#include "collectives/rows.h"

namespace tutti {

std::span<const Algorithm> algorithms() {
  static const std::array kRows = {
      one_shot_all_reduce(),     two_shot_all_reduce(),

      one_shot_all_gather(),

      two_shot_reduce_scatter(),

      one_shot_broadcast(),      two_shot_broadcast(),

      one_shot_reduce(),

      one_shot_gather(),

      one_shot_scatter(),

      one_shot_all_to_all(),

      one_shot_barrier(),
  };
  return kRows;
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& row : algorithms()) {
    if (row.collective == collective && row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace tutti
