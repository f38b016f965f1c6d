// How a segment's descriptor is passed over a local socket: callers that say anything, and leaders that answer anything
// with any descriptors. Only who proves that he knows the key gets or gives one, only memory that is sealed and of the
// right size is mapped, and no descriptor is left open.
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/input.h"
#include "fuzz/target.h"
#include "transport/shm/segment.h"
#include "transport/shm/segment_protocol.h"
#include "tutti/error.h"

namespace tutti::fuzz {
namespace {

constexpr int kLeader = 2;
constexpr int kRank = 5;
constexpr std::size_t kBytes = 8192;

std::span<const std::byte> key() {
  static const Key made = Key::from_text("the key of the segments");
  return made.bytes();
}

struct Pair {
  UniqueFd tested;
  UniqueFd fuzzer;
};

Pair make_pair() {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there are sockets");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void say(const UniqueFd& socket, std::span<const std::byte> bytes) {
  static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

// What a damaged or hostile leader may hand over. The first is right.
const std::array<UniqueFd, 5>& descriptors() {
  static const std::array<UniqueFd, 5> made = [] {
    static const Segment right = Segment::create(kBytes);
    static const Segment long_one = Segment::create(kBytes + 4096);
    std::array<UniqueFd, 5> all;
    all[0] = UniqueFd(::dup(right.descriptor()));
    all[1] = UniqueFd(::dup(long_one.descriptor()));
    all[2] = UniqueFd(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    require(::ftruncate(all[2].get(), kBytes) == 0, "memory has a size");
    all[3] = UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    all[4] = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return all;
  }();
  return made;
}

void say_with_descriptors(const UniqueFd& socket, std::span<const std::byte> bytes, std::span<const int> passed) {
  if (passed.empty()) return say(socket, bytes);
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(passed.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(passed.size_bytes());
  std::memcpy(CMSG_DATA(header), passed.data(), passed.size_bytes());
  static_cast<void>(::sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

// A caller, as the leader meets it.
void call(Input& input) {
  Pair pair = make_pair();
  require(::fcntl(pair.tested.get(), F_SETFL, O_NONBLOCK) == 0, "a socket need not block");
  SegmentGiver giver(std::move(pair.tested));
  require(giver.greet(), "the caller is there");
  SegmentChallenge challenge;
  require(::recv(pair.fuzzer.get(), challenge.data(), challenge.size(), 0) == static_cast<ssize_t>(challenge.size()),
          "a leader begins with a challenge");
  SegmentRequest request{kRank, {}, prove_request(key(), kLeader, kRank, challenge)};
  const unsigned damage = input.byte();
  auto* const bytes = reinterpret_cast<std::byte*>(&request);
  if ((damage & 1) != 0) bytes[input.byte() % sizeof request] ^= static_cast<std::byte>(1 + input.below(255));
  const bool honest = (damage & 1) == 0 ||
                      equal_in_constant_time(request.proof, prove_request(key(), kLeader, request.rank, challenge));
  std::span<const std::byte> left = std::as_bytes(std::span(&request, 1));
  if ((damage & 2) != 0) left = left.first(input.byte() % left.size());
  const bool whole = left.size() == sizeof request;
  bool done = false;
  while (!done && !left.empty()) {
    const std::size_t part = std::min<std::size_t>((damage & 4) != 0 ? 1 + input.byte() : left.size(), left.size());
    say(pair.fuzzer, left.first(part));
    left = left.subspan(part);
    done = giver.answer(key(), kLeader, descriptors()[0].get());
  }
  require(done == whole, "a leader answers a whole request and nothing else");
  SegmentProof proof;
  const ssize_t got = ::recv(pair.fuzzer.get(), proof.data(), proof.size(), MSG_DONTWAIT);
  require((got > 0) == (whole && honest), "only who knows the key gets a segment");
}

// A leader, as the caller meets it.
void answer(Input& input) {
  Pair pair = make_pair();
  const unsigned damage = input.byte();
  // The nonce that the caller is going to make.
  SegmentChallenge challenge;
  restart_random();
  randombytes_buf(challenge.data(), challenge.size());
  restart_random();
  const auto first = input.take((damage & 1) != 0 ? input.byte() : sizeof(SegmentChallenge));
  Bytes theirs(first.begin(), first.end());
  if ((damage & 1) == 0) theirs.resize(sizeof(SegmentChallenge));
  say(pair.fuzzer, theirs);
  SegmentProof proof = prove_answer(key(), kLeader, kRank, challenge);
  const bool honest = (damage & 2) == 0 && theirs.size() == sizeof(SegmentChallenge);
  if ((damage & 2) != 0) proof[input.byte() % proof.size()] ^= static_cast<std::byte>(1 + input.below(255));
  std::array<int, 8> passed{};
  const std::size_t count = input.below(passed.size() + 1);
  unsigned first_kind = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned kind = input.below(static_cast<unsigned>(descriptors().size()));
    if (i == 0) first_kind = kind;
    passed[i] = descriptors()[kind].get();
  }
  const std::size_t cut = (damage & 4) != 0 ? input.byte() % (proof.size() + 1) : proof.size();
  say_with_descriptors(pair.fuzzer, std::span(proof).first(cut), std::span(passed).first(count));
  say(pair.fuzzer, input.blob());
  ::shutdown(pair.fuzzer.get(), SHUT_WR);
  UniqueFd got = receive_segment(pair.tested.get(), key(), kLeader, kRank);
  if (!got) return;
  require(honest && count > 0, "a descriptor is taken from nobody who does not know the key");
  try {
    const Segment segment = Segment::map(std::move(got), kBytes);
    require(first_kind == 0 && segment.size() == kBytes, "only sealed memory of the right size is mapped");
  } catch (const Error& error) {
    require(first_kind != 0, "the right memory is mapped");
  }
}

// Which of the first descriptors are open. Some are the fuzzer's own, and change between inputs.
std::array<bool, 48> open_descriptors() {
  std::array<pollfd, 48> all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = {static_cast<int>(i), 0, 0};
  ::poll(all.data(), all.size(), 0);
  std::array<bool, 48> open;
  std::ranges::transform(all, open.begin(), [](const pollfd& one) { return (one.revents & POLLNVAL) == 0; });
  return open;
}

}  // namespace

void run(std::span<const std::byte> bytes) {
  static_cast<void>(descriptors());
  const auto before = open_descriptors();
  Input input(bytes);
  if (input.below(2) == 0) {
    call(input);
  } else {
    answer(input);
  }
  require(open_descriptors() == before, "no descriptor is left open");
}

std::vector<Bytes> seeds() {
  const auto text = [](std::initializer_list<int> values) {
    Bytes bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    bytes.resize(bytes.size() + 8);
    return bytes;
  };
  Bytes honest = {std::byte{1}, std::byte{0}};
  honest.resize(honest.size() + sizeof(SegmentChallenge));
  Bytes two = honest;
  honest.push_back(std::byte{1});
  honest.push_back(std::byte{0});
  for (const int byte : {2, 0, 1}) two.push_back(static_cast<std::byte>(byte));
  return {text({0, 0}), text({0, 1, 4, 1}), text({0, 2, 30}), text({0, 4, 9, 20, 30}), honest, two, text({1, 1, 20})};
}

}  // namespace tutti::fuzz
