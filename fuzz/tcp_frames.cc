// Data connections: frames of a rank that knows the secret and whose memory is damaged, in any order and cut anywhere,
// while this rank sends, receives, posts buffers of its own and withdraws them. Nothing is written beyond a buffer or
// after it was withdrawn, and a frame that may not be fails the communicator with that rank's name.
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>

#include "fuzz/input.h"
#include "fuzz/target.h"
#include "transport/messages.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti::fuzz {
namespace {

constexpr int kPeer = 0;
constexpr int kChannels = 2;
constexpr std::uint32_t kWindow = 2;
constexpr std::uint32_t kLongest = 1024;

enum class Move : std::uint8_t { kFrame, kDamagedFrame, kBytes, kSend, kTake, kPost, kWithdraw, kProgress, kCount };

TcpLimits limits() {
  TcpLimits made;
  made.channels = kChannels;
  made.window = kWindow;
  made.max_message_bytes = kLongest;
  made.close_wait = std::chrono::milliseconds(0);
  return made;
}

class Rank {
 public:
  Rank()
      : health_(2),
        transport_(
            1, 2, health_, [](int) {}, limits_),
        slots_(std::make_unique<std::byte[]>(kLongest)) {
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "there are sockets");
    peer_ = UniqueFd(ends[1]);
    for (int c = 0; c < kChannels; ++c) {
      Endpoint& endpoint = endpoints_[static_cast<std::size_t>(c)];
      endpoint.peer = kPeer;
      endpoint.channel = static_cast<std::uint8_t>(c);
      endpoint.out_slots = slots_.get();
      transport_.add_endpoint(endpoint);
    }
    transport_.attach(kPeer, UniqueFd(ends[0]), false);
  }
  ~Rank() { health_.fail(ErrorCode::kAborted, "the input is over", kPeer); }

  bool failed() const { return health_.failed(); }

  void play(Move move, Input& input) {
    const std::size_t which = input.below(kChannels);
    Endpoint& endpoint = endpoints_[which];
    switch (move) {
      case Move::kFrame:
      case Move::kDamagedFrame:
        say(frame(move == Move::kDamagedFrame, which, input));
        break;
      case Move::kBytes: {
        const auto bytes = input.blob();
        say({bytes.begin(), bytes.end()});
        break;
      }
      case Move::kSend:
        if (can_publish(endpoint)) {
          const auto length = static_cast<std::uint32_t>(input.byte() * 4u);
          publish_line(endpoint, {length <= Line::kPayload ? Way::kInline : Way::kSlot, 0, length}, 1, {});
        }
        break;
      case Move::kTake:
        take(endpoint, which);
        break;
      case Move::kPost:
        if (posted_[which] == nullptr && !withdrawn_[which]) {
          posted_bytes_[which] = 97 + input.byte() * 3u;
          posted_[which] = std::make_unique<std::byte[]>(posted_bytes_[which]);
          transport_.post(endpoint, posted_[which].get(), static_cast<std::uint32_t>(posted_bytes_[which]), kSignature);
        }
        break;
      case Move::kWithdraw:
        transport_.withdraw(endpoint);
        posted_[which].reset();
        withdrawn_[which] = true;
        break;
      default:
        break;
    }
    while (transport_.progress()) {
    }
    std::array<std::byte, 4096> ignored;
    while (::recv(peer_.get(), ignored.data(), ignored.size(), MSG_DONTWAIT) > 0) {
    }
    if (failed()) require(health_.reason().peer() == kPeer, "a failure names the rank whose memory is damaged");
  }

 private:
  static constexpr std::uint64_t kSignature = 7;

  void say(const Bytes& bytes) {
    static_cast<void>(::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }

  Bytes frame(bool damaged, std::size_t which, Input& input) {
    FrameHeader header;
    header.channel = static_cast<std::uint8_t>(which);
    header.kind = input.below(4) == 3 ? FrameKind::kCredit : FrameKind::kMessage;
    header.credit = endpoints_[which].sent;
    if (header.kind == FrameKind::kMessage) {
      const unsigned length = input.byte();
      // Often as long as what was posted.
      header.length = length == 255 ? static_cast<std::uint32_t>(posted_bytes_[which]) : length * 4;
      header.number = ++numbers_[which];
      header.signature = kSignature;
    }
    Bytes bytes(FrameHeader::kBytes);
    header.encode(bytes.data());
    bytes.resize(bytes.size() + header.length, std::byte{1});
    if (damaged) bytes[input.byte() % FrameHeader::kBytes] = static_cast<std::byte>(input.byte());
    if (input.below(4) == 3) bytes.resize(input.integer<std::uint16_t>() % (bytes.size() + 1));
    return bytes;
  }

  void take(Endpoint& endpoint, std::size_t which) {
    const Line* line = arrived(endpoint);
    // Whoever withdraws has failed, and takes no message any more.
    if (line == nullptr || withdrawn_[which]) return;
    const Descriptor descriptor = Descriptor::unpack(line->descriptor);
    require(descriptor.length <= kLongest, "no message is longer than was agreed");
    const std::byte* from = nullptr;
    switch (descriptor.way) {
      case Way::kInline:
        require(descriptor.length <= Line::kPayload, "a short message fits its line");
        from = line->payload;
        break;
      case Way::kSlot:
        require(lies_in_slots(endpoint, descriptor), "a message lies where messages lie");
        from = endpoint.in_slots + std::size_t{descriptor.slot} * Descriptor::kSlotUnit;
        break;
      default:
        require(
            descriptor.way == Way::kWritten && posted_[which] != nullptr && descriptor.length == posted_bytes_[which],
            "a message is written where it was asked for");
        from = posted_[which].get();
    }
    Bytes copy(from, from + descriptor.length);
    if (descriptor.way == Way::kWritten) posted_[which].reset();
    take_message(endpoint, *line);
    settle_credit(endpoint);
  }

  TcpLimits limits_ = limits();
  Health health_;
  TcpTransport transport_;
  std::unique_ptr<std::byte[]> slots_;
  std::array<Endpoint, kChannels> endpoints_;
  std::array<std::unique_ptr<std::byte[]>, kChannels> posted_;
  std::array<std::size_t, kChannels> posted_bytes_{};
  std::array<std::uint64_t, kChannels> numbers_{};
  std::array<bool, kChannels> withdrawn_{};
  UniqueFd peer_;
};

}  // namespace

void run(std::span<const std::byte> bytes) {
  Input input(bytes);
  Rank rank;
  for (int moves = 0; !input.ended() && !rank.failed() && moves < 40; ++moves) {
    rank.play(static_cast<Move>(input.below(static_cast<unsigned>(Move::kCount))), input);
  }
}

std::vector<Bytes> seeds() {
  const auto text = [](std::initializer_list<int> values) {
    Bytes bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
  };
  return {
      text({0, 0, 0, 10, 0, /**/ 4, 0, /**/ 0, 1, 0, 200, 0, /**/ 4, 1}),               // messages, taken
      text({5, 0, 50, /**/ 0, 0, 0, 255, 0, /**/ 4, 0}),                                // into a posted buffer
      text({5, 0, 50, /**/ 0, 0, 0, 255, 3, 100, 0, /**/ 6, 0, /**/ 7, 0, /**/ 4, 0}),  // cut and withdrawn
      text({3, 0, 5, /**/ 3, 0, 100, /**/ 0, 0, 3, /**/ 0, 0, 0, 1, 0, /**/ 3, 0, 9}),  // sends and credit
      text({1, 0, 0, 10, 3, 9, /**/ 2, 0, 4, 'T', 't', 2, 0}),                          // damage
  };
}

}  // namespace tutti::fuzz
