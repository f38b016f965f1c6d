#include "schedule/algorithm.h"

namespace tutti {

const char* name(Collective collective) {
  constexpr const char* kNames[kCollectives] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                                "gather",     "scatter",    "all_to_all",     "barrier"};
  return kNames[static_cast<int>(collective)];
}

}  // namespace tutti
