#include "bootstrap/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tutti/error.h"

namespace tutti {
namespace {

// A file with a secret, gone with the test.
class SecretFile {
 public:
  SecretFile(const std::string& text, mode_t mode) {
    const int fd = ::mkstemp(path_.data());
    ::close(fd);
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }
  ~SecretFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "tutti-secret-XXXXXX";
};

std::string refusal(const std::map<std::string, std::string>& settings) {
  try {
    find_secret(Config().with(settings), "");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting);
    return error.what();
  }
  return "no error";
}

bool same(const Key& a, const Key& b) { return equal_in_constant_time(a.bytes(), b.bytes()); }

TEST(Secret, ComesFromTheFirstSourceThatHasOne) {
  const SecretFile file("the secret in the file\n", 0600);
  const std::string launcher = "f13b9c978ec84a62-4bb37e089f776422";
  Config config;
  EXPECT_EQ(find_secret(config, "").origin, SecretOrigin::kNone);
  EXPECT_TRUE(find_secret(config, "").key.empty());
  config = config.with({{"TUTTI_ALLOW_UNAUTHENTICATED", "1"}});
  EXPECT_EQ(find_secret(config, "").origin, SecretOrigin::kUnauthenticated);
  EXPECT_EQ(find_secret(config, launcher).origin, SecretOrigin::kLauncher);
  config = config.with({{"TUTTI_SECRET_FILE", file.path()}});
  EXPECT_EQ(find_secret(config, launcher).origin, SecretOrigin::kFile);
  config = config.with({{"TUTTI_SECRET", "the secret in a variable"}});
  EXPECT_EQ(find_secret(config, launcher).origin, SecretOrigin::kSetting);
}

TEST(Secret, IsTheSameForTheSameTextWhereverItStands) {
  const SecretFile file("  the secret of this job\n", 0600);
  const Key from_file = find_secret(Config().with({{"TUTTI_SECRET_FILE", file.path()}}), "").key;
  EXPECT_TRUE(same(from_file, find_secret(Config().with({{"TUTTI_SECRET", "the secret of this job"}}), "").key));
  EXPECT_FALSE(same(from_file, find_secret(Config().with({{"TUTTI_SECRET", "the secret of another job"}}), "").key));
}

TEST(Secret, MustNotBeShortAndIsNotQuoted) {
  const std::string message = refusal({{"TUTTI_SECRET", "swordfish"}});
  EXPECT_NE(message.find("TUTTI_SECRET has 9 characters, at least 16"), std::string::npos) << message;
  EXPECT_EQ(message.find("swordfish"), std::string::npos);
}

TEST(Secret, InAFileIsReadableByItsOwnerOnly) {
  for (const mode_t mode : {0640, 0604, 0660, 0610, 0644}) {
    const SecretFile file("the secret in the file", mode);
    EXPECT_NE(refusal({{"TUTTI_SECRET_FILE", file.path()}}).find("chmod 0600"), std::string::npos) << mode;
  }
  const SecretFile read_only("the secret in the file", 0400);
  EXPECT_EQ(refusal({{"TUTTI_SECRET_FILE", read_only.path()}}), "no error");
}

TEST(Secret, SaysWhatIsWrongWithAFile) {
  EXPECT_NE(refusal({{"TUTTI_SECRET_FILE", "/nonexistent/secret"}}).find("No such file"), std::string::npos);
  EXPECT_NE(refusal({{"TUTTI_SECRET_FILE", testing::TempDir()}}).find("no regular file"), std::string::npos);
  const SecretFile empty("", 0600);
  EXPECT_NE(refusal({{"TUTTI_SECRET_FILE", empty.path()}}).find("has 0 characters"), std::string::npos);
  const SecretFile large(std::string(10'000, 'x'), 0600);
  EXPECT_NE(refusal({{"TUTTI_SECRET_FILE", large.path()}}).find("longer than 4096"), std::string::npos);
}

}  // namespace
}  // namespace tutti
