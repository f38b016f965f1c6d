#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/ranks.h"

namespace tutti {

// Three ranks on one host, on a host each, and on two hosts.
struct RanksOnHosts {
  const char* name;
  std::vector<int> host_of;
};
inline void PrintTo(const RanksOnHosts& way, std::ostream* out) { *out << way.name; }

class OnHosts : public testing::TestWithParam<RanksOnHosts> {
 protected:
  static constexpr int kRanks = 3;
  static RankSetup setup() {
    RankSetup setup = on_hosts(GetParam().host_of);
    setup.options.name = "dp";
    return setup;
  }
};

#define TUTTI_ON_ALL_HOSTS(Suite)                                                                                   \
  INSTANTIATE_TEST_SUITE_P(Hosts, Suite,                                                                            \
                           testing::Values(RanksOnHosts{"SharedMemory", {0, 0, 0}}, RanksOnHosts{"Tcp", {0, 1, 2}}, \
                                           RanksOnHosts{"Both", {0, 0, 1}}),                                        \
                           [](const auto& info) { return std::string(info.param.name); })

}  // namespace tutti
