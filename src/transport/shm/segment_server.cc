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
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::size_t kProofBytes = 32;
constexpr int kBacklog = 4096;
constexpr timeval kPatience{2, 0};     // for one answer: both sides are local
constexpr uid_t kOverflowUid = 65534;  // what another user namespace's users look like

using Proof = std::array<unsigned char, kProofBytes>;

// What a caller sends: who it is, and that it knows the key.
struct SegmentRequest {
  std::int32_t rank;
  Proof proof;
};
static_assert(sizeof(SegmentRequest) == 36);

Proof prove(std::span<const std::byte> key, std::string_view text) {
  Proof proof;
  crypto_generichash(proof.data(), proof.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     reinterpret_cast<const unsigned char*>(key.data()), key.size());
  return proof;
}

Proof prove_request(std::span<const std::byte> key, int leader, int rank) {
  return prove(key, fmt::format("segment of {} for {}", leader, rank));
}

std::pair<sockaddr_un, socklen_t> socket_address(const std::string& name, bool abstract) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t offset = abstract ? 1 : 0;
  std::memcpy(address.sun_path + offset, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + offset + name.size() + (abstract ? 0 : 1))};
}

UniqueFd listen_at(const std::string& name, bool abstract) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {};
  const auto [address, length] = socket_address(name, abstract);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return {};
  if (::listen(socket.get(), kBacklog) != 0) return {};
  return socket;
}

UniqueFd connect_to(const std::string& name, bool abstract) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return {};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  const auto [address, length] = socket_address(name, abstract);
  int result = 0;
  do {
    result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? std::move(socket) : UniqueFd();
}

bool same_user(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return false;
  return credentials.uid == ::geteuid() || credentials.uid == kOverflowUid;
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

void send_descriptor(int socket, int descriptor) {
  char byte = 1;
  iovec data{&byte, 1};
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

UniqueFd receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  DescriptorMessage control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  if (retry([&] { return ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC); }) != 1) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return {};
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return UniqueFd(descriptor);
}

}  // namespace

SegmentAddress SegmentAddress::derive(std::span<const std::byte> key, int leader, const std::string& directory) {
  const Proof name = prove(key, fmt::format("address of {}", leader));
  std::array<char, 33> hex;
  sodium_bin2hex(hex.data(), hex.size(), name.data(), 16);
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
  if (!address_.path.empty()) {
    file_ = listen_at(address_.path, false);
    if (file_) ::chmod(address_.path.c_str(), 0600);
  }
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!wake_) throw Error(ErrorCode::kSystem, fmt::format("cannot create an eventfd: {}", std::strerror(errno)));
  thread_ = std::thread([this] { serve(); });
}

void SegmentServer::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  retry([&] { return ::write(wake_.get(), &one, sizeof(one)); });
  thread_.join();
  if (file_) ::unlink(address_.path.c_str());
  abstract_.reset();
  file_.reset();
}

void SegmentServer::serve() {
  std::array<pollfd, 3> waits{pollfd{wake_.get(), POLLIN, 0}, pollfd{abstract_.get(), POLLIN, 0},
                              pollfd{file_.get(), POLLIN, 0}};
  while (true) {
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits[0].revents != 0) return;
    for (std::size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents & POLLIN) answer(waits[i].fd);
    }
  }
}

void SegmentServer::answer(int listener) {
  UniqueFd caller(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!caller || !same_user(caller.get())) return;
  ::setsockopt(caller.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  ::setsockopt(caller.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  SegmentRequest request{};
  if (retry([&] { return ::recv(caller.get(), &request, sizeof(request), MSG_WAITALL); }) != sizeof(request)) return;
  const Proof expected = prove_request(key_, leader_, request.rank);
  if (sodium_memcmp(expected.data(), request.proof.data(), expected.size()) != 0) return;
  send_descriptor(caller.get(), segment_);
}

UniqueFd request_segment(const SegmentAddress& address, std::span<const std::byte> key, int leader, int rank) {
  UniqueFd socket = connect_to(address.abstract_name, true);
  if (!socket && !address.path.empty()) socket = connect_to(address.path, false);
  if (!socket || !same_user(socket.get())) return {};
  const SegmentRequest request{rank, prove_request(key, leader, rank)};
  if (retry([&] { return ::send(socket.get(), &request, sizeof(request), MSG_NOSIGNAL); }) != sizeof(request))
    return {};
  return receive_descriptor(socket.get());
}

}  // namespace tutti
