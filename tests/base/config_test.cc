#include "base/config.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <map>

#include "base/log.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using Variables = std::map<std::string, std::string>;

Config read(const Variables& variables) {
  return Config::from_environment([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const Variables& variables) {
  try {
    read(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting);
    return error.what();
  }
  return "no error";
}

TEST(Config, HasADefaultForEverySetting) {
  const Config config = read({});
  EXPECT_EQ(config.duration(Setting::kSilence), std::chrono::seconds(30));
  EXPECT_EQ(config.text(Setting::kShmDir), "/dev/shm");
  EXPECT_EQ(config.text(Setting::kSocketFamily), "any");
  EXPECT_FALSE(config.flag(Setting::kShmDisable));
  EXPECT_FALSE(config.given(Setting::kSilence));
  EXPECT_EQ(config.given_name(Setting::kSilence), "TUTTI_SILENCE");
}

TEST(Config, ReadsEveryType) {
  const Config config = read({{"TUTTI_SILENCE", "2.5"},
                              {"TUTTI_CHUNK_BYTES", "64K"},
                              {"TUTTI_RANK", " 3 "},
                              {"TUTTI_SHM_DISABLE", "yes"},
                              {"TUTTI_DEBUG", "INFO"},
                              {"TUTTI_SOCKET_FAMILY", "AF_INET6"}});
  EXPECT_EQ(config.duration(Setting::kSilence), std::chrono::milliseconds(2500));
  EXPECT_EQ(config.integer(Setting::kChunkBytes), 65536);
  EXPECT_EQ(config.integer(Setting::kRank), 3);
  EXPECT_TRUE(config.flag(Setting::kShmDisable));
  EXPECT_EQ(config.text(Setting::kDebug), "info");
  EXPECT_EQ(config.text(Setting::kSocketFamily), "ipv6");
}

TEST(Config, NamesVariableValueAndWhatIsAllowed) {
  EXPECT_EQ(
      error_of({{"TUTTI_RANK", "three"}}),
      "TUTTI_RANK=three is not allowed: TUTTI_RANK takes a whole number from 0 to 64999 (this process's rank when "
      "no launcher says so)");
  for (const char* bad : {"-1", "1e9", "nan", "inf", "5s", "0"}) {
    EXPECT_NE(error_of({{"TUTTI_SILENCE", bad}}).find("takes seconds from 1 to 86400"), std::string::npos) << bad;
  }
  for (const char* bad : {"K", "64KB", "99999999999G", "-1", "-1K", "-20000088000000008K", "9223372036854775807M"}) {
    EXPECT_NE(error_of({{"TUTTI_CHUNK_BYTES", bad}}).find("with K, M or G"), std::string::npos) << bad;
  }
  // Modulo 2^64 these would be 1 GiB, 1 MiB and 1 KiB.
  for (const char* bad : {"17179869185G", "17592186044417M", "18014398509481985K"}) {
    EXPECT_NE(error_of({{"TUTTI_CHUNK_BYTES", bad}}).find("with K, M or G"), std::string::npos) << bad;
  }
  EXPECT_NE(error_of({{"TUTTI_SHM_DISABLE", "2"}}).find("0 or 1"), std::string::npos);
  EXPECT_NE(error_of({{"TUTTI_DEBUG", "loud"}}).find("error, warn, info or debug"), std::string::npos);
  EXPECT_NE(error_of({{"TUTTI_SOCKET_FAMILY", "ipx"}}).find("AF_INET6"), std::string::npos);
}

// A value that is wrong for every setting that can be wrong, and what its message says beside name and value.
TEST(Config, RefusesAWrongValueOfEverySettingByNameAndSaysWhatIsAllowed) {
  struct Wrong {
    const char* name;
    std::string value;
    const char* allowed;
  };
  const std::string endless(5000, 'x');
  const std::vector<Wrong> table = {
      {"TUTTI_DEBUG", "loud", "error, warn, info or debug"},
      {"TUTTI_RANK", "-1", "a whole number from 0 to 64999"},
      {"TUTTI_NRANKS", "0", "a whole number from 1 to 65000"},
      {"TUTTI_COMM_ID", "", ""},  // where ranks find out who they are: membership_test
      {"TUTTI_PORT", "65536", "a whole number from 1 to 65535"},
      {"TUTTI_PORTS", "29600-29500", "a port from 1 to 65535, or the first and the last of several"},
      {"TUTTI_SECRET", "", ""},
      {"TUTTI_SECRET_FILE", endless, "at most 4000 characters"},
      {"TUTTI_ALLOW_UNAUTHENTICATED", "perhaps", "0 or 1"},
      {"TUTTI_SOCKET_IFNAME", endless, "at most 4000 characters"},
      {"TUTTI_SOCKET_FAMILY", "ipx", "any, ipv4 or ipv6"},
      {"TUTTI_HOSTID", endless, "at most 4000 characters"},
      {"TUTTI_SHM_DISABLE", "2", "0 or 1"},
      {"TUTTI_SHM_DIR", endless, "at most 4000 characters"},
      {"TUTTI_MEET_TIMEOUT", "soon", "seconds from 0 to 86400"},
      {"TUTTI_SILENCE", "0.5", "seconds from 1 to 86400"},
      {"TUTTI_STALL_WARNING", "-1", "seconds from 0 to 86400"},
      {"TUTTI_DUMP_DIR", endless, "at most 4000 characters"},
      {"TUTTI_DUMP_SIGNAL", "KILL", "USR1, USR2 or none"},
      {"TUTTI_ALGO", endless, "at most 4000 characters"},
      {"TUTTI_CHUNK_BYTES", "2G", "0, or bytes from 256 to 1073741824"},
      {"TUTTI_CHANNELS", "5", "a whole number from 0 to 4"},
      {"TUTTI_RING_BYTES", "64KB", "0, or bytes from 4096 to 1073741824"},
      {"TUTTI_TUNING_FILE", endless, "at most 4000 characters"},
      {"TUTTI_CHECK", "everything", "none or memory"},
  };
  const std::string all = Config().describe();
  std::size_t known = 0;
  for (std::size_t at = 0; at < all.size(); at = all.find('\n', at) + 1, ++known) {
    const std::string name = all.substr(at, all.find(' ', at) - at);
    const auto listed = std::ranges::any_of(table, [&](const Wrong& wrong) { return name == wrong.name; });
    EXPECT_TRUE(listed) << name << " is new: give it a wrong value here";
  }
  EXPECT_EQ(known, kSettings);
  for (const Wrong& wrong : table) {
    if (wrong.value.empty()) continue;
    const std::string message = error_of({{wrong.name, wrong.value}});
    EXPECT_TRUE(message.starts_with(std::string(wrong.name) + "=" + wrong.value.substr(0, 80) + " is not allowed"))
        << message;
    EXPECT_NE(message.find(wrong.allowed), std::string::npos) << message;
    EXPECT_LT(message.size(), 400u);
  }
}

TEST(Config, TakesAnEmptyVariableForNone) {
  const Config config = read({{"TUTTI_SILENCE", ""}, {"TUTTI_SOCKET_IFNAME", " "}, {"NCCL_SOCKET_IFNAME", "eth0"}});
  EXPECT_FALSE(config.given(Setting::kSilence));
  EXPECT_EQ(config.text(Setting::kSocketIfname), "eth0");
}

TEST(Config, PrefersItsOwnNameToTheAlias) {
  Config config = read({{"NCCL_SOCKET_IFNAME", "ib0"}});
  EXPECT_EQ(config.text(Setting::kSocketIfname), "ib0");
  EXPECT_EQ(config.given_name(Setting::kSocketIfname), "NCCL_SOCKET_IFNAME");
  config = read({{"NCCL_SOCKET_IFNAME", "ib0"}, {"TUTTI_SOCKET_IFNAME", "eth0"}});
  EXPECT_EQ(config.text(Setting::kSocketIfname), "eth0");
  EXPECT_EQ(config.given_name(Setting::kSocketIfname), "TUTTI_SOCKET_IFNAME");
}

TEST(Config, LogsAndIgnoresAnAliasValueThatItDoesNotKnow) {
  testing::internal::CaptureStderr();
  const Config config = read({{"NCCL_SHM_DISABLE", "-2"}, {"NCCL_DEBUG", "TRACE"}});
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(config.given(Setting::kShmDisable));
  EXPECT_EQ(config.text(Setting::kDebug), "debug");
  EXPECT_NE(logged.find("NCCL_SHM_DISABLE=-2 is not known here and ignored"), std::string::npos) << logged;
}

TEST(Config, LetsOptionsWinOverTheEnvironment) {
  const Config environment = read({{"TUTTI_SILENCE", "7"}, {"TUTTI_CHANNELS", "2"}});
  const Config config = environment.with({{"TUTTI_SILENCE", "9"}});
  EXPECT_EQ(config.duration(Setting::kSilence), std::chrono::seconds(9));
  EXPECT_EQ(config.integer(Setting::kChannels), 2);
  EXPECT_EQ(environment.duration(Setting::kSilence), std::chrono::seconds(7));
}

TEST(Config, RefusesUnknownAndBadOptions) {
  for (const std::map<std::string, std::string>& bad :
       {std::map<std::string, std::string>{{"TUTTI_SILENSE", "1"}}, {{"TUTTI_SILENCE", "x"}}}) {
    try {
      read({}).with(bad);
      ADD_FAILURE() << bad.begin()->first;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting);
      EXPECT_NE(std::string(error.what()).find(bad.begin()->first), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("TUTTI_SILENCE"), std::string::npos);
    }
  }
}

TEST(Config, DescribesEverySettingButNoSecret) {
  const std::string text =
      read({{"TUTTI_SECRET", "0123456789abcdef"}, {"TUTTI_COMM_ID", "tutti1/x/y"}, {"NCCL_HOSTID", "a"}}).describe();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(kSettings));
  EXPECT_EQ(text.find("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(text.find("tutti1/x/y"), std::string::npos);
  EXPECT_NE(text.find("NCCL_HOSTID"), std::string::npos);
  EXPECT_NE(text.find("default"), std::string::npos);
}

TEST(Config, AgreesOnWhatMustAgreeAndOnNothingElse) {
  const Config plain = read({});
  const Config own =
      read({{"TUTTI_RANK", "1"}, {"TUTTI_NRANKS", "2"}, {"TUTTI_SHM_DISABLE", "1"}, {"NCCL_DEBUG", "INFO"}});
  EXPECT_EQ(plain.agreement_hash(), own.agreement_hash());
  EXPECT_EQ(plain.agreement_text(), "TUTTI_ALGO= TUTTI_CHUNK_BYTES=0 TUTTI_CHANNELS=0 TUTTI_RING_BYTES=0");
  for (const auto& [name, value] :
       {std::pair{"TUTTI_CHUNK_BYTES", "4K"}, {"TUTTI_CHANNELS", "4"}, {"TUTTI_RING_BYTES", "4K"}}) {
    EXPECT_NE(plain.agreement_hash(), read({{name, value}}).agreement_hash()) << name;
  }
  EXPECT_NE(plain.agreement_hash(), read({{"TUTTI_ALGO", "ring"}}).agreement_hash());
  EXPECT_EQ(read({{"TUTTI_CHUNK_BYTES", "64K"}}).agreement_hash(),
            read({{"TUTTI_CHUNK_BYTES", "65536"}}).agreement_hash());
}

TEST(Log, WritesOneLineWithoutControlCharacters) {
  const std::time_t before = ::time(nullptr);
  testing::internal::CaptureStderr();
  log_warn("a {} of\n{}\x1b[2J", "line", 2);
  log_info("not shown at the default level");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  // Its time is that of a clock that all hosts have.
  std::string shape = text;
  std::ranges::replace_if(
      shape, [](char c) { return '0' <= c && c <= '9'; }, '0');
  EXPECT_TRUE(shape.starts_with("tutti 0000-00-00T00:00:00.000Z ")) << text;
  EXPECT_NE(text.find(" WARN "), std::string::npos) << text;
  tm told{};
  ::strptime(text.c_str(), "tutti %Y-%m-%dT%H:%M:%S", &told);
  const std::time_t after = ::time(nullptr);
  EXPECT_GE(::timegm(&told), before) << text;
  EXPECT_LE(::timegm(&told), after) << text;
  EXPECT_TRUE(text.ends_with(" WARN a line of 2 [2J\n")) << text;
}

TEST(Log, ShowsWhatItsLevelAllows) {
  set_log_level(LogLevel::kError);
  testing::internal::CaptureStderr();
  log_warn("quiet");
  set_log_level(LogLevel::kInfo);
  log_info("loud");
  set_log_level(LogLevel::kWarn);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("quiet"), std::string::npos);
  EXPECT_NE(text.find("loud"), std::string::npos);
}

}  // namespace
}  // namespace tutti
