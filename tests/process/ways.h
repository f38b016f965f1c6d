#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "process/job.h"

namespace tutti {

// Which transports lie between the ranks of a job.
struct Way {
  const char* name;
  Environment (*variables)(int rank);
};
inline void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
inline std::string name_of_way(const testing::TestParamInfo<Way>& info) { return info.param.name; }

inline const Way kShm{"Shm", [](int) { return Environment{}; }};
inline const Way kTcp{"Tcp", [](int) { return Environment{{"TUTTI_SHM_DISABLE", "1"}}; }};
inline const Way kMixed{"Mixed", [](int rank) { return Environment{{"TUTTI_HOSTID", rank < 2 ? "one" : "other"}}; }};
inline const Way kWays[] = {kShm, kTcp, kMixed};

}  // namespace tutti
