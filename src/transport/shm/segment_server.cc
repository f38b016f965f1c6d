#include "transport/shm/segment_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sodium.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/net/key.h"
#include "base/open_sockets.h"
#include "base/system_error.h"
#include "base/threads.h"
#include "base/users.h"
#include "transport/shm/segment.h"
#include "transport/shm/segment_protocol.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int kBacklog = 4096;
constexpr timeval kClientPatience{10, 0};  // the leader may have hundreds to answer
constexpr int kLookMs = 100;
constexpr std::chrono::milliseconds kPause(10);  // until the system may have again what it lacks
constexpr std::chrono::seconds kPatience(2);
constexpr std::size_t kMostCallers = 256;
constexpr std::chrono::milliseconds kGrace(250);  // a caller that said nothing for so long gives way to another

std::pair<sockaddr_un, socklen_t> socket_address(const std::string& name, bool abstract) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t offset = abstract ? 1 : 0;
  std::memcpy(address.sun_path + offset, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + offset + name.size() + (abstract ? 0 : 1))};
}

UniqueFd listen_at(const std::string& name, bool abstract) {
  UniqueFd socket = OpenSockets::open([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  if (!socket) return {};
  // A socket file gets the socket's mode: never is there a moment in which others may connect, nor a path to change.
  if (::fchmod(socket.get(), 0600) != 0) return {};
  const auto [address, length] = socket_address(name, abstract);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return {};
  if (::listen(socket.get(), kBacklog) != 0) return {};
  return socket;
}

UniqueFd connect_to(const std::string& name, bool abstract) {
  UniqueFd socket = OpenSockets::open([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  if (!socket) return {};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kClientPatience, sizeof(kClientPatience));
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kClientPatience, sizeof(kClientPatience));
  const auto [address, length] = socket_address(name, abstract);
  int result = 0;
  do {
    result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? std::move(socket) : UniqueFd();
}

bool is_out_of_something(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

bool same_user(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return false;
  // Where the kernel cannot tell, the challenge alone decides.
  return credentials.uid == ::geteuid() || may_be_anybody(credentials.uid);
}

}  // namespace

struct SegmentServer::Caller {
  SegmentGiver giver;
  Clock::time_point since = Clock::now();
};

SegmentAddress SegmentAddress::derive(std::span<const std::byte> key, int leader, const std::string& directory) {
  const auto name = Key(key.first<Key::kBytes>()).authenticate(fmt::format("address of {}", leader), {});
  std::array<char, 33> hex;
  sodium_bin2hex(hex.data(), hex.size(), reinterpret_cast<const unsigned char*>(name.data()), 16);
  SegmentAddress address;
  address.abstract_name = fmt::format("tutti-{}", hex.data());
  const std::string path = fmt::format("{}/tutti-{}", directory, hex.data());
  if (directory.empty()) {
    address.obstacle = "TUTTI_SHM_DIR names no directory for socket files";
  } else if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    address.obstacle =
        fmt::format("TUTTI_SHM_DIR is too long: the path of a socket file has at most {} bytes, {} has {}",
                    sizeof(sockaddr_un::sun_path) - 1, path, path.size());
  } else {
    address.path = path;
  }
  return address;
}

SegmentServer::SegmentServer(const SegmentAddress& address, std::vector<std::byte> key, int leader, int segment)
    : address_(address), key_(std::move(key)), leader_(leader), segment_(segment) {
  abstract_ = listen_at(address_.abstract_name, true);
  if (!abstract_) {
    const int error = errno;
    const std::string trouble =
        system_trouble("cannot listen on a local socket to share memory", error, descriptor_advice(error));
    if (is_out_of_something(error)) throw Error(ErrorCode::kSystem, trouble);
    throw NoSharedMemory(trouble);
  }
  if (!address_.path.empty()) file_ = listen_at(address_.path, false);
  if (!file_) {
    const std::string why = address_.path.empty()
                                ? address_.obstacle
                                : fmt::format("no socket file at {}: {}", address_.path, errno_text(errno));
    log_info("{}: only ranks of this network namespace can share memory with rank {}", why, leader);
  }
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!wake_) throw system_error("cannot create an eventfd", errno, descriptor_advice(errno));
  thread_ = start_thread("tutti-segment", "that passes shared memory on", [this] { serve(); });
}

SegmentServer::~SegmentServer() { stop(); }

void SegmentServer::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
  if (file_) ::unlink(address_.path.c_str());
  callers_.clear();
  abstract_.reset();
  file_.reset();
}

void SegmentServer::serve() {
  while (true) {
    try {
      return serve_callers();
    } catch (const std::exception&) {
      callers_.clear();  // out of memory: they are told at least that nothing comes
    }
  }
}

void SegmentServer::serve_callers() {
  std::vector<pollfd> waits;
  while (true) {
    const Clock::time_point now = Clock::now();
    std::erase_if(callers_, [now](const auto& caller) { return now - caller->since > kPatience; });
    // Who comes while the table is full waits in the system's queue until the oldest had its time.
    const bool full = callers_.size() >= kMostCallers;
    if (full && now - callers_.front()->since > kGrace) callers_.erase(callers_.begin());
    const short listen = callers_.size() < kMostCallers ? POLLIN : 0;
    waits.assign({{wake_.get(), POLLIN, 0}, {abstract_.get(), listen, 0}, {file_.get(), listen, 0}});
    for (const auto& caller : callers_) waits.push_back({caller->giver.socket(), POLLIN, 0});
    const int patience = callers_.empty() ? -1 : 50;
    if (::poll(waits.data(), waits.size(), patience) < 0) {
      if (errno != EINTR) std::this_thread::sleep_for(kPause);
      continue;
    }
    if (waits[0].revents != 0) return;
    constexpr std::size_t kListeners = 3;
    for (std::size_t i = waits.size(); i-- > kListeners;) {
      const auto caller = callers_.begin() + static_cast<std::ptrdiff_t>(i - kListeners);
      if (waits[i].revents != 0 && (*caller)->giver.answer(key_, leader_, segment_)) callers_.erase(caller);
    }
    for (std::size_t i = 1; i < kListeners; ++i) {
      if (waits[i].revents & POLLIN) accept(waits[i].fd);
    }
  }
}

void SegmentServer::accept(int listener) {
  UniqueFd socket =
      OpenSockets::open([listener] { return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
  if (!socket) {
    // Out of descriptors, perhaps: the caller stays in the queue, and this thread does not spin.
    if (errno != EAGAIN) std::this_thread::sleep_for(kPause);
    return;
  }
  if (!same_user(socket.get())) return;
  auto caller = std::make_unique<Caller>(Caller{.giver = SegmentGiver(std::move(socket))});
  if (caller->giver.greet()) callers_.push_back(std::move(caller));
}

UniqueFd request_segment(const SegmentAddress& address, std::span<const std::byte> key, int leader, int rank,
                         const std::function<bool()>& given_up, std::string* why) {
  std::string trouble;
  const auto wait = [&given_up](int socket) {
    const Deadline deadline = Clock::now() + std::chrono::seconds(kClientPatience.tv_sec);
    while (Clock::now() < deadline && !(given_up && given_up())) {
      pollfd answer{socket, POLLIN, 0};
      if (::poll(&answer, 1, kLookMs) > 0) return true;
    }
    return false;
  };
  for (const bool abstract : {true, false}) {
    const std::string& name = abstract ? address.abstract_name : address.path;
    if (given_up && given_up()) break;
    if (name.empty()) {
      trouble = address.obstacle;
      continue;
    }
    const UniqueFd socket = connect_to(name, abstract);
    if (!socket) {
      trouble = fmt::format("nothing answers at {}: {}", name, errno_text(errno));
    } else if (!same_user(socket.get())) {
      trouble = fmt::format("another user answers at {}", name);
    } else if (UniqueFd descriptor = receive_segment(socket.get(), key, leader, rank, wait)) {
      return descriptor;
    } else {
      trouble = fmt::format("who answers at {} does not pass its memory on", name);
      break;
    }
  }
  if (why != nullptr) *why = trouble;
  return {};
}

}  // namespace tutti
