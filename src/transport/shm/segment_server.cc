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
#include <fstream>
#include <utility>

#include "base/clock.h"
#include "base/net/key.h"
#include "base/open_sockets.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int kBacklog = 4096;
constexpr timeval kClientPatience{10, 0};  // the leader may have hundreds to answer
constexpr std::chrono::seconds kPatience(2);
constexpr std::size_t kMostCallers = 256;
constexpr std::chrono::milliseconds kGrace(250);  // a caller that said nothing for so long gives way to another
constexpr uid_t kOverflowUid = 65534;             // what another user namespace's users look like

using Proof = std::array<std::byte, Key::kBytes>;

//   caller                                       leader
//                                            ◀─  nonce
//   rank, nonce, proof over the leader's     ─▶
//                                            ◀─  proof over the caller's, with the descriptor
using Challenge = std::array<std::byte, 32>;
struct SegmentRequest {
  std::int32_t rank;
  Challenge challenge;
  Proof proof;
};
static_assert(sizeof(SegmentRequest) == 68);

Challenge new_challenge() {
  Challenge challenge;
  randombytes_buf(challenge.data(), challenge.size());
  return challenge;
}

Proof prove(std::span<const std::byte> key, const std::string& role, std::span<const std::byte> challenge = {}) {
  return Key(key.first<Key::kBytes>()).authenticate(role, challenge);
}
Proof prove_request(std::span<const std::byte> key, int leader, int rank, const Challenge& challenge) {
  return prove(key, fmt::format("segment of {} for {}", leader, rank), challenge);
}
Proof prove_answer(std::span<const std::byte> key, int leader, int rank, const Challenge& challenge) {
  return prove(key, fmt::format("segment of {} goes to {}", leader, rank), challenge);
}

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

// Whether users of other user namespaces can appear here: not in one that has a name for everybody, where the overflow
// user is a user like others.
bool strangers_have_no_uid() {
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  std::ifstream map("/proc/self/uid_map");
  return !(map >> inside >> outside >> count) || count < 0xFFFFFFFF;
}

bool same_user(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return false;
  return credentials.uid == ::geteuid() || (credentials.uid == kOverflowUid && strangers_have_no_uid());
}

template <class Transfer>
ssize_t retry(Transfer transfer) {
  ssize_t result = 0;
  do {
    result = transfer();
  } while (result < 0 && errno == EINTR);
  return result;
}

// Room for one descriptor in a control message.
union DescriptorMessage {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// Proof and descriptor in one message. The buffer of a new socket takes it at once.
void send_descriptor(int socket, Proof proof, int descriptor) {
  iovec data{proof.data(), proof.size()};
  DescriptorMessage control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  retry([&] { return ::sendmsg(socket, &message, MSG_NOSIGNAL); });
}

UniqueFd receive_descriptor(int socket, const Proof& expected) {
  Proof proof{};
  iovec data{proof.data(), proof.size()};
  DescriptorMessage control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  const ssize_t got = retry([&] { return ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL); });
  const cmsghdr* header = got < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return {};
  }
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof(int));
  UniqueFd descriptor(number);  // closed unless it is the leader's
  if (got != static_cast<ssize_t>(proof.size()) || !equal_in_constant_time(proof, expected)) return {};
  return descriptor;
}

UniqueFd ask(int socket, std::span<const std::byte> key, int leader, int rank) {
  Challenge theirs;
  if (retry([&] { return ::recv(socket, theirs.data(), theirs.size(), MSG_WAITALL); }) !=
      static_cast<ssize_t>(theirs.size())) {
    return {};
  }
  const SegmentRequest request{rank, new_challenge(), prove_request(key, leader, rank, theirs)};
  if (retry([&] { return ::send(socket, &request, sizeof(request), MSG_NOSIGNAL); }) != sizeof(request)) return {};
  return receive_descriptor(socket, prove_answer(key, leader, rank, request.challenge));
}

}  // namespace

struct SegmentServer::Caller {
  UniqueFd socket;
  Challenge challenge = new_challenge();
  Clock::time_point since = Clock::now();
  SegmentRequest request{};
  std::size_t received = 0;
};

SegmentAddress SegmentAddress::derive(std::span<const std::byte> key, int leader, const std::string& directory) {
  const Proof name = prove(key, fmt::format("address of {}", leader));
  std::array<char, 33> hex;
  sodium_bin2hex(hex.data(), hex.size(), reinterpret_cast<const unsigned char*>(name.data()), 16);
  SegmentAddress address;
  address.abstract_name = fmt::format("tutti-{}", hex.data());
  const std::string path = fmt::format("{}/tutti-{}", directory, hex.data());
  if (!directory.empty() && path.size() < sizeof(sockaddr_un::sun_path)) address.path = path;
  return address;
}

SegmentServer::SegmentServer(const SegmentAddress& address, std::vector<std::byte> key, int leader, int segment)
    : address_(address), key_(std::move(key)), leader_(leader), segment_(segment) {
  abstract_ = listen_at(address_.abstract_name, true);
  if (!abstract_) {
    throw Error(ErrorCode::kSystem, fmt::format("cannot listen on a local socket: {}", std::strerror(errno)));
  }
  if (!address_.path.empty()) file_ = listen_at(address_.path, false);
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!wake_) throw Error(ErrorCode::kSystem, fmt::format("cannot create an eventfd: {}", std::strerror(errno)));
  thread_ = std::thread([this] { serve(); });
}

SegmentServer::~SegmentServer() { stop(); }

void SegmentServer::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  retry([&] { return ::write(wake_.get(), &one, sizeof(one)); });
  thread_.join();
  if (file_) ::unlink(address_.path.c_str());
  callers_.clear();
  abstract_.reset();
  file_.reset();
}

void SegmentServer::serve() {
  std::vector<pollfd> waits;
  while (true) {
    const Clock::time_point now = Clock::now();
    std::erase_if(callers_, [now](const auto& caller) { return now - caller->since > kPatience; });
    // Who comes while the table is full waits in the system's queue until the oldest had its time.
    const bool full = callers_.size() >= kMostCallers;
    if (full && now - callers_.front()->since > kGrace) callers_.erase(callers_.begin());
    const short listen = callers_.size() < kMostCallers ? POLLIN : 0;
    waits.assign({{wake_.get(), POLLIN, 0}, {abstract_.get(), listen, 0}, {file_.get(), listen, 0}});
    for (const auto& caller : callers_) waits.push_back({caller->socket.get(), POLLIN, 0});
    const int patience = callers_.empty() ? -1 : 50;
    if (::poll(waits.data(), waits.size(), patience) < 0 && errno != EINTR) return;
    if (waits[0].revents != 0) return;
    constexpr std::size_t kListeners = 3;
    for (std::size_t i = waits.size(); i-- > kListeners;) {
      const auto caller = callers_.begin() + static_cast<std::ptrdiff_t>(i - kListeners);
      if (waits[i].revents != 0 && answer(**caller)) callers_.erase(caller);
    }
    for (std::size_t i = 1; i < kListeners; ++i) {
      if (waits[i].revents & POLLIN) accept(waits[i].fd);
    }
  }
}

void SegmentServer::accept(int listener) {
  auto caller = std::make_unique<Caller>();
  caller->socket =
      OpenSockets::open([listener] { return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
  if (!caller->socket) {
    // Out of descriptors, perhaps: the caller stays in the queue, and this thread does not spin.
    if (errno != EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  if (!same_user(caller->socket.get())) return;
  const Challenge& challenge = caller->challenge;
  if (retry([&] { return ::send(caller->socket.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL); }) !=
      static_cast<ssize_t>(challenge.size())) {
    return;
  }
  callers_.push_back(std::move(caller));
}

// Takes what a caller said; whether it is done with.
bool SegmentServer::answer(Caller& caller) {
  SegmentRequest& request = caller.request;
  const auto into = std::as_writable_bytes(std::span(&request, 1)).subspan(caller.received);
  const ssize_t got = retry([&] { return ::recv(caller.socket.get(), into.data(), into.size(), 0); });
  if (got < 0 && errno == EAGAIN) return false;
  if (got <= 0) return true;
  caller.received += static_cast<std::size_t>(got);
  if (caller.received < sizeof(request)) return false;
  if (equal_in_constant_time(request.proof, prove_request(key_, leader_, request.rank, caller.challenge))) {
    send_descriptor(caller.socket.get(), prove_answer(key_, leader_, request.rank, request.challenge), segment_);
  }
  return true;
}

UniqueFd request_segment(const SegmentAddress& address, std::span<const std::byte> key, int leader, int rank) {
  for (const bool abstract : {true, false}) {
    const std::string& name = abstract ? address.abstract_name : address.path;
    if (name.empty()) continue;
    const UniqueFd socket = connect_to(name, abstract);
    if (!socket || !same_user(socket.get())) continue;
    if (UniqueFd descriptor = ask(socket.get(), key, leader, rank)) return descriptor;
  }
  return {};
}

}  // namespace tutti
