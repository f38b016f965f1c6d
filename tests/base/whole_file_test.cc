#include "base/whole_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tutti {
namespace {

class WholeFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "tutti_whole_file_XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string read(const std::string& name) const {
    std::ifstream file(directory_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(directory_), std::filesystem::directory_iterator());
  }

  std::string directory_;
};

TEST_F(WholeFile, ReplacesOneOfTheSameNameAndIsItsOwnersAlone) {
  EXPECT_EQ(write_whole_file(directory_, "a", "first, and longer"), 0);
  EXPECT_EQ(write_whole_file(directory_, "a", "second"), 0);
  EXPECT_EQ(read("a"), "second");
  EXPECT_EQ(files(), 1);
  struct stat status {};
  ASSERT_EQ(::stat((directory_ + "/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(WholeFile, DoesNotFollowALinkThatSomebodyPrepared) {
  std::ofstream(directory_ + "/victim") << "precious";
  ASSERT_EQ(::symlink((directory_ + "/victim").c_str(), (directory_ + "/a").c_str()), 0);
  EXPECT_EQ(write_whole_file(directory_, "a", "report"), 0);
  EXPECT_EQ(read("victim"), "precious");
  EXPECT_EQ(read("a"), "report");
}

TEST_F(WholeFile, LeavesNothingBehindWhenItFails) {
  ASSERT_EQ(::mkdir((directory_ + "/a").c_str(), 0700), 0);
  EXPECT_NE(write_whole_file(directory_, "a", "a directory is in the way"), 0);
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(write_whole_file(directory_ + "/none", "a", ""), ENOENT);
}

TEST(FileNamePart, KeepsPlainLettersOnly) {
  EXPECT_EQ(file_name_part("dp.0-x"), "dp.0-x");
  EXPECT_EQ(file_name_part("../etc/passwd"), "_._etc_passwd");
  EXPECT_EQ(file_name_part("world/0 ü\n"), "world_0____");
  EXPECT_EQ(file_name_part(""), "_");
  EXPECT_EQ(file_name_part(std::string(1000, 'x')).size(), 64u);
}

}  // namespace
}  // namespace tutti
