#include "transport/shm/segment_protocol.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "base/random.h"

namespace tutti {
namespace {

SegmentChallenge new_challenge() {
  SegmentChallenge challenge;
  fill_randomly(std::as_writable_bytes(std::span(challenge)));
  return challenge;
}

SegmentProof prove(std::span<const std::byte> key, const std::string& role, const SegmentChallenge& challenge) {
  return Key(key.first<Key::kBytes>()).authenticate(role, challenge);
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
void send_descriptor(int socket, SegmentProof proof, int descriptor) {
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

UniqueFd receive_descriptor(int socket, const SegmentProof& expected) {
  SegmentProof proof{};
  iovec data{proof.data(), proof.size()};
  DescriptorMessage control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  // Room for one and not a byte more: the system closes what a leader may have sent beyond it.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t got = retry([&] { return ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL); });
  const cmsghdr* header = got < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return {};
  }
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof(int));
  UniqueFd descriptor(number);  // closed unless it is the leader's
  if ((message.msg_flags & MSG_CTRUNC) != 0 || got != static_cast<ssize_t>(proof.size()) ||
      !equal_in_constant_time(proof, expected))
    return {};
  return descriptor;
}

}  // namespace

SegmentProof prove_request(std::span<const std::byte> key, int leader, int rank, const SegmentChallenge& challenge) {
  return prove(key, fmt::format("segment of {} for {}", leader, rank), challenge);
}

SegmentProof prove_answer(std::span<const std::byte> key, int leader, int rank, const SegmentChallenge& challenge) {
  return prove(key, fmt::format("segment of {} goes to {}", leader, rank), challenge);
}

SegmentGiver::SegmentGiver(UniqueFd socket) : socket_(std::move(socket)), challenge_(new_challenge()) {}

bool SegmentGiver::greet() const {
  return retry([&] { return ::send(socket_.get(), challenge_.data(), challenge_.size(), MSG_NOSIGNAL); }) ==
         static_cast<ssize_t>(challenge_.size());
}

bool SegmentGiver::answer(std::span<const std::byte> key, int leader, int segment) {
  const auto into = std::as_writable_bytes(std::span(&request_, 1)).subspan(received_);
  const ssize_t got = retry([&] { return ::recv(socket_.get(), into.data(), into.size(), 0); });
  if (got < 0 && errno == EAGAIN) return false;
  if (got <= 0) return true;
  received_ += static_cast<std::size_t>(got);
  if (received_ < sizeof(request_)) return false;
  if (equal_in_constant_time(request_.proof, prove_request(key, leader, request_.rank, challenge_))) {
    send_descriptor(socket_.get(), prove_answer(key, leader, request_.rank, request_.challenge), segment);
  }
  return true;
}

UniqueFd receive_segment(int socket, std::span<const std::byte> key, int leader, int rank, const WaitReadable& wait) {
  SegmentChallenge theirs;
  if (wait && !wait(socket)) return {};
  if (retry([&] { return ::recv(socket, theirs.data(), theirs.size(), MSG_WAITALL); }) !=
      static_cast<ssize_t>(theirs.size())) {
    return {};
  }
  const SegmentRequest request{rank, new_challenge(), prove_request(key, leader, rank, theirs)};
  if (retry([&] { return ::send(socket, &request, sizeof(request), MSG_NOSIGNAL); }) != sizeof(request)) return {};
  if (wait && !wait(socket)) return {};
  return receive_descriptor(socket, prove_answer(key, leader, rank, request.challenge));
}

}  // namespace tutti
