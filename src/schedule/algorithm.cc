#include "schedule/algorithm.h"

namespace tutti {

const char* name(Collective collective) {
  constexpr const char* kNames[kCollectives] = {"all_reduce", "all_gather",   "reduce_scatter",   "broadcast",
                                                "reduce",     "gather",       "scatter",          "all_to_all",
                                                "barrier",    "all_gather_v", "reduce_scatter_v", "all_to_all_v"};
  return kNames[static_cast<int>(collective)];
}

}  // namespace tutti
