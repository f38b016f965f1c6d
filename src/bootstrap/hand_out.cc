#include "bootstrap/hand_out.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/net/key.h"
#include "base/open_sockets.h"
#include "base/system_error.h"
#include "base/users.h"
#include "bootstrap/meeting_watch.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// Why a rank that was given no secret may not find rank 0.
constexpr std::string_view kOtherReasons =
    "as another user, in another network namespace, on another host, or with a TUTTI_SECRET, which this rank has none "
    "of: set the same one on all ranks";

constexpr std::size_t kLongestAnswer = 2048;
constexpr int kAnswersAtOnce = 64;  // then others get their turn

struct AbstractName {
  sockaddr_un address{};
  socklen_t length = 0;

  explicit AbstractName(const std::string& name) {
    address.sun_family = AF_UNIX;
    // sun_path[0] stays 0: the name lives in the kernel and dies with its socket.
    const std::size_t size = std::min(name.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, name.data(), size);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  }
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Who is at the other end, as the kernel recorded it when the connection, or its listener, was made.
ucred credentials(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    throw system_error("cannot ask who is at the other end of a local socket", errno);
  }
  return peer;
}

// Why rank 0 does not hand anything out.
std::string absent(const std::string& name) {
  return fmt::format("rank 0 on this host (meeting place @{}): it does not run, or {}", name, kOtherReasons);
}
std::string mute(const std::string& name, pid_t pid) {
  return fmt::format(
      "rank 0 on this host (meeting place @{}): process {} has this place and does not answer; it is "
      "stopped, or starved of processor time",
      name, pid);
}

// One try: the answer, or "" when rank 0 is not there yet; `reached`: the process that has the place.
std::string ask_once(const AbstractName& name, Deadline deadline, const std::function<void(pid_t reached)>& reached) {
  const UniqueFd socket = OpenSockets::open([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  if (!socket) throw system_error("cannot open a local socket", errno);
  // Rank 0 may stop in the middle of the conversation: no call below blocks beyond this.
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now());
  const std::int64_t wait = std::clamp<std::int64_t>(left.count(), 1000, 5'000'000);
  const timeval limit{.tv_sec = static_cast<time_t>(wait / 1'000'000),
                      .tv_usec = static_cast<suseconds_t>(wait % 1'000'000)};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (::connect(socket.get(), name.data(), name.length) != 0) return "";
  const ucred peer = credentials(socket.get());
  if (may_be_anybody(peer.uid)) {
    throw Error(ErrorCode::kUnauthorized,
                fmt::format("process {} holds this job's meeting place on this host, and in this user namespace it may "
                            "be of any user ({}); set TUTTI_SECRET on all ranks",
                            peer.pid, peer.uid));
  }
  if (!is_this_user(peer.uid)) {
    throw Error(
        ErrorCode::kUnauthorized,
        fmt::format("process {} of user {} has taken this job's meeting place on this host; choose another port, "
                    "or set TUTTI_SECRET on all ranks",
                    peer.pid, peer.uid));
  }
  reached(peer.pid);
  std::string answer;
  std::array<char, kLongestAnswer> buffer;
  while (answer.size() < kLongestAnswer) {
    const ssize_t count = ::recv(socket.get(), buffer.data(), kLongestAnswer - answer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return "";
    if (count == 0) return answer;
    if (Clock::now() >= deadline) return "";  // however slowly bytes come
    answer.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return "";
}

}  // namespace

HandOut::HandOut(const std::string& name)
    : listener_(OpenSockets::open([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); })) {
  if (!listener_) throw system_error("cannot open a local socket", errno);
  const AbstractName address(name);
  if (::bind(listener_.get(), address.data(), address.length) != 0) {
    const int error = errno;
    throw system_error(fmt::format("cannot open the meeting place @{}", name), error,
                       "does another job of this user meet at the same port, does a second process believe that it is "
                       "rank 0, or has another user taken the name? Choose another port, or set TUTTI_SECRET");
  }
  if (::listen(listener_.get(), SOMAXCONN) != 0) throw system_error("cannot listen on a local socket", errno);
}

bool HandOut::serve(std::string_view text) {
  for (int i = 0; i < kAnswersAtOnce; ++i) {
    const UniqueFd peer = OpenSockets::open(
        [this] { return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
    if (!peer) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN;
    }
    const ucred who = credentials(peer.get());
    if (!is_this_user(who.uid)) {
      // Once: whoever asks again and again must not fill the log of somebody else's job.
      log_line(std::exchange(told_of_strangers_, true) ? LogLevel::kDebug : LogLevel::kWarn,
               fmt::format("process {} of user {} asked for this job's secret and got no answer", who.pid, who.uid));
      continue;
    }
    // A new local socket takes this much at once; a peer that died meanwhile does not matter.
    if (::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) {
      log_debug("handing out to process {} failed: {}", who.pid, errno_text(errno));
    }
  }
  return true;
}

std::string ask_hand_out(const std::string& name, Deadline deadline, MeetingWatch* watch) {
  const AbstractName address(name);
  auto pause = std::chrono::milliseconds(1);
  std::string trouble;
  const auto waits = [&](std::string what) {
    if (watch != nullptr && what != trouble) watch->waits("for " + what);
    trouble = std::move(what);
  };
  waits(absent(name));
  while (true) {
    pid_t holder = 0;
    std::string answer = ask_once(address, deadline, [&](pid_t reached) {
      holder = reached;
      waits(mute(name, reached));
    });
    if (!answer.empty()) return answer;
    if (holder == 0) waits(absent(name));
    const auto now = Clock::now();
    if (now >= deadline) throw Error(ErrorCode::kTimeout, "no answer from " + trouble, 0);
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
    pause = std::min(2 * pause, std::chrono::milliseconds(100));
  }
}

std::string hand_out_name(std::string_view meeting_place) {
  const Key hash = Key::from_text(meeting_place);
  std::string name = fmt::format("tutti-{}-", ::geteuid());
  for (const std::byte byte : hash.bytes().first<12>()) name += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return name;
}

}  // namespace tutti
