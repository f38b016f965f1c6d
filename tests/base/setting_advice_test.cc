#include "base/setting_advice.h"

#include <gtest/gtest.h>

#include <map>

namespace tutti {
namespace {

using Lines = std::vector<std::string>;

TEST(SettingAdvice, NamesVariablesThatAreNoSettingsAndWhatWasMeant) {
  const char* const environment[] = {"PATH=/bin",       "TUTTI_DEBUG=info",  "TUTTI_DEBGU=info",
                                     "TUTTI_CHANELS=2", "TUTTI_TEST_SEED=1", "TUTTI_WHATEVER_ELSE=1",
                                     "TUTTI_",          "NCCL_DEBGU=info",   nullptr};
  EXPECT_EQ(unknown_settings(environment),
            (Lines{"TUTTI_ is no setting of tutti and does nothing",
                   "TUTTI_CHANELS is no setting of tutti and does nothing; TUTTI_CHANNELS is one",
                   "TUTTI_DEBGU is no setting of tutti and does nothing; TUTTI_DEBUG is one",
                   "TUTTI_WHATEVER_ELSE is no setting of tutti and does nothing"}));
  EXPECT_EQ(unknown_settings(nullptr), Lines{});
}

TEST(SettingAdvice, DoubtsDirectoriesAndInterfacesThatDoNotExist) {
  const std::vector<InterfaceRecord> here = {{"lo", {}, 8, true}, {"eth0", {}, 24, true}};
  const auto doubts = [&](const std::map<std::string, std::string>& settings) {
    return doubtful_settings(Config().with(settings), here);
  };
  EXPECT_EQ(doubts({}), Lines{});
  EXPECT_EQ(doubts({{"TUTTI_DUMP_DIR", "/tmp"}, {"TUTTI_SOCKET_IFNAME", "eth"}}), Lines{});
  const Lines lines = doubts({{"TUTTI_DUMP_DIR", "/nonexistent"}, {"TUTTI_SOCKET_IFNAME", "eht0"}});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].starts_with("TUTTI_DUMP_DIR=/nonexistent: No such file or directory (ENOENT); ")) << lines[0];
  EXPECT_EQ(lines[1], "TUTTI_SOCKET_IFNAME=eht0 matches no network interface of this host");
}

}  // namespace
}  // namespace tutti
