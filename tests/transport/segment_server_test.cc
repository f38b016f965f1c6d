#include "transport/shm/segment_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/net/key.h"
#include "support/descriptors.h"
#include "transport/shm/host_group.h"
#include "transport/shm/segment.h"
#include "transport/shm/segment_protocol.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int kLeader = 2;
constexpr int kRank = 5;
constexpr std::size_t kBytes = 8192;
constexpr std::size_t kChallengeBytes = 32;
constexpr std::size_t kRequestBytes = 68;

std::vector<std::byte> new_key() {
  const Key key = Key::random();
  return {key.bytes().begin(), key.bytes().end()};
}

std::pair<sockaddr_un, socklen_t> abstract_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

UniqueFd connect_to(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto [address, length] = abstract_address(name);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length), 0) << std::strerror(errno);
  return socket;
}

// Somebody else who has taken the leader's place.
UniqueFd listen_at(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto [address, length] = abstract_address(name);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length), 0) << std::strerror(errno);
  EXPECT_EQ(::listen(socket.get(), 16), 0);
  return socket;
}

class SegmentServerTest : public testing::Test {
 protected:
  std::vector<std::byte> key_ = new_key();
  SegmentAddress address_ = SegmentAddress::derive(key_, kLeader, "");
  Segment segment_ = Segment::create(kBytes);
};

TEST_F(SegmentServerTest, GivesTheSegmentToWhoKnowsTheKeyAndToNobodyElse) {
  segment_.data()[17] = std::byte{42};
  const SegmentServer server(address_, key_, kLeader, segment_.descriptor());
  const Segment got = Segment::map(request_segment(address_, key_, kLeader, kRank), kBytes);
  EXPECT_EQ(got.data()[17], std::byte{42});
  EXPECT_FALSE(request_segment(address_, new_key(), kLeader, kRank)) << "another key";
  EXPECT_FALSE(request_segment(address_, key_, kLeader + 1, kRank)) << "meant for another leader";
}

TEST_F(SegmentServerTest, IsNotHeldUpByCallersThatSayNothing) {
  const SegmentServer server(address_, key_, kLeader, segment_.descriptor());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connect_to(address_.abstract_name));
  EXPECT_TRUE(request_segment(address_, key_, kLeader, kRank));
}

// A stopped leader still accepts connections, in the kernel.
TEST_F(SegmentServerTest, IsNotWaitedForOnceTheCommunicatorHasFailed) {
  const UniqueFd stopped = listen_at(address_.abstract_name);
  int asked = 0;
  const auto start = Clock::now();
  EXPECT_FALSE(request_segment(address_, key_, kLeader, kRank, [&asked] { return ++asked > 3; }));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(8)) << "a caller waits 10 s for an answer";
}

TEST_F(SegmentServerTest, IsNotImpressedByARequestThatWasRecorded) {
  std::array<std::byte, kRequestBytes> recorded{};
  {
    const UniqueFd squatter = listen_at(address_.abstract_name);
    std::thread honest([&] { EXPECT_FALSE(request_segment(address_, key_, kLeader, kRank)); });
    const UniqueFd caller(::accept(squatter.get(), nullptr, nullptr));
    const std::array<std::byte, kChallengeBytes> challenge{};
    EXPECT_EQ(::send(caller.get(), challenge.data(), challenge.size(), 0), static_cast<ssize_t>(challenge.size()));
    EXPECT_EQ(::recv(caller.get(), recorded.data(), recorded.size(), MSG_WAITALL),
              static_cast<ssize_t>(recorded.size()));
    ::shutdown(caller.get(), SHUT_RDWR);
    honest.join();
  }
  const SegmentServer server(address_, key_, kLeader, segment_.descriptor());
  const UniqueFd attacker = connect_to(address_.abstract_name);
  std::array<std::byte, kChallengeBytes> challenge;
  EXPECT_EQ(::recv(attacker.get(), challenge.data(), challenge.size(), MSG_WAITALL),
            static_cast<ssize_t>(challenge.size()));
  EXPECT_EQ(::send(attacker.get(), recorded.data(), recorded.size(), 0), static_cast<ssize_t>(recorded.size()));
  std::byte answer;
  EXPECT_EQ(::recv(attacker.get(), &answer, 1, 0), 0) << "it closes without a word";
}

TEST_F(SegmentServerTest, HasToProveThatItKnowsTheKeyToo) {
  const UniqueFd squatter = listen_at(address_.abstract_name);
  std::thread leader([&] {
    const UniqueFd caller(::accept(squatter.get(), nullptr, nullptr));
    std::array<std::byte, kRequestBytes> bytes{};
    ::send(caller.get(), bytes.data(), kChallengeBytes, MSG_NOSIGNAL);
    ::recv(caller.get(), bytes.data(), bytes.size(), MSG_WAITALL);
    // A descriptor of its own with the caller's proof: the best it can do.
    iovec data{bytes.data() + kRequestBytes - 32, 32};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = segment_.descriptor();
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    EXPECT_EQ(::sendmsg(caller.get(), &message, MSG_NOSIGNAL), 32);
  });
  EXPECT_FALSE(request_segment(address_, key_, kLeader, kRank));
  leader.join();
}

// Found by fuzzing: the second of two descriptors stayed open.
TEST_F(SegmentServerTest, ThatSendsManyDescriptorsLeavesNoneOpen) {
  const std::size_t before = open_descriptors();
  for (const std::size_t count : {1, 2, 3, 200}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd caller(ends[0]);
    const UniqueFd leader(ends[1]);
    std::array<std::byte, kChallengeBytes> bytes{};
    ASSERT_EQ(::send(leader.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    const std::vector<int> descriptors(count, segment_.descriptor());
    std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
    iovec data{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), count * sizeof(int));
    ASSERT_EQ(::sendmsg(leader.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    EXPECT_FALSE(receive_segment(caller.get(), key_, kLeader, kRank)) << "there was no proof";
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(SegmentServerTest, HasASocketFileForItsOwnerOnlyAndRemovesIt) {
  std::string directory = testing::TempDir() + "tutti-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const mode_t before = ::umask(0);
  const SegmentAddress address = SegmentAddress::derive(key_, kLeader, directory);
  {
    const SegmentServer server(address, key_, kLeader, segment_.descriptor());
    struct stat status {};
    ASSERT_EQ(::stat(address.path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    SegmentAddress file_only = address;
    file_only.abstract_name.clear();
    EXPECT_TRUE(request_segment(file_only, key_, kLeader, kRank));
  }
  ::umask(before);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove(directory);
}

// The same for a rank that hears of the death before it knows who leads.
TEST_F(SegmentServerTest, ThatDiedLeavesNoSocketFileToThoseWhoGiveUpEarlier) {
  std::string directory = testing::TempDir() + "tutti-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  std::ofstream(SegmentAddress::derive(key_, 0, directory).path);
  std::ofstream(SegmentAddress::derive(key_, 2, directory).path);
  remove_socket_files(key_, directory, 3);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove(directory);
}

// The leader was killed while it listened: the rank that waits for it removes its file.
TEST_F(SegmentServerTest, ThatDiedLeavesNoSocketFile) {
  std::string directory = testing::TempDir() + "tutti-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string path = SegmentAddress::derive(key_, 0, directory).path;
  HostGroupRequest request;
  request.rank = 1;
  request.ranks = 2;
  request.hosts = {"same", "same"};
  request.key = key_;
  request.directory = directory;
  int exchanges = 0;
  request.exchange = [&](std::span<const std::byte> own) -> std::vector<std::vector<std::byte>> {
    if (++exchanges == 2) throw Error(ErrorCode::kRemote, "rank 0 died");
    EXPECT_TRUE(std::ofstream(path).good());
    return {std::vector<std::byte>(sizeof(std::int32_t)), {own.begin(), own.end()}};
  };
  EXPECT_THROW(join_host_group(request), Error);
  EXPECT_EQ(exchanges, 2);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove_all(directory);
}

TEST_F(SegmentServerTest, RefusesAnotherUserThoughItKnowsTheKey) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can pose as another user";
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
  if (count < 0xFFFFFFFF) GTEST_SKIP() << "in a user namespace, user 65534 may be anybody";
  const SegmentServer server(address_, key_, kLeader, segment_.descriptor());
  for (const uid_t user : {uid_t{4711}, uid_t{65534}}) {
    std::thread([&] {
      // Credentials belong to a thread in the kernel: setresuid as a system call changes this one only.
      ASSERT_EQ(::syscall(SYS_setresuid, user, user, user), 0);
      const UniqueFd caller = connect_to(address_.abstract_name);
      std::byte byte;
      EXPECT_EQ(::recv(caller.get(), &byte, 1, 0), 0) << "user " << user << " gets not even a challenge";
    }).join();
  }
}

TEST(SegmentLimits, SayWhatWasAskedForWhatThereIsAndWhatToDo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than any limit leaves";
#else
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
    std::string text = "no error";
    try {
      Segment::create(std::size_t{8} << 30);
    } catch (const Error& error) {
      text = error.what();
    }
    ::_exit(::write(ends[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  ::close(ends[1]);
  char text[1000] = {};
  EXPECT_GT(::read(ends[0], text, sizeof text - 1), 0);
  ::close(ends[0]);
  ::waitpid(pid, nullptr, 0);
  for (const char* part :
       {"8589934592 bytes", "available: ", " kB", "1073741824 bytes of address space", "ulimit -v"}) {
    EXPECT_NE(std::string(text).find(part), std::string::npos) << part << " is not in: " << text;
  }
#endif
}

}  // namespace
}  // namespace tutti
