#include "base/net/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/random.h"

namespace tutti {
namespace {

constexpr std::array<char, 8> kMagic = {'T', 'U', 'T', 'T', 'I', 'H', 'S', '1'};
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = Key::kBytes;

// The first byte of what a server says.
constexpr std::uint8_t kChallenge = 1;
constexpr std::uint8_t kAccept = 2;
constexpr std::uint8_t kReject = 3;

std::span<const std::byte> magic() { return std::as_bytes(std::span(kMagic)); }

std::array<std::byte, kNonceBytes> random_bytes() {
  std::array<std::byte, kNonceBytes> bytes;
  fill_randomly(bytes);
  return bytes;
}

// Reasons cross the trust boundary: only printable ASCII of a bounded length does.
std::string printable(std::string text) {
  if (text.size() > Handshake::kMaxReason) text.resize(Handshake::kMaxReason);
  std::ranges::replace_if(
      text, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

bool known(std::uint8_t code) { return code <= static_cast<std::uint8_t>(ErrorCode::kUnsupported); }

}  // namespace

std::array<std::byte, 16> communicator_name(const Nonce& nonce, std::string_view job) {
  // The nonce is public: this key only separates the hash from others.
  const auto hash =
      Key::from_text("communicator name").authenticate("name", nonce, std::as_bytes(std::span(job.data(), job.size())));
  std::array<std::byte, 16> name;
  std::ranges::copy_n(hash.begin(), name.size(), name.begin());
  return name;
}

Key handshake_key(const Key& secret, const std::array<std::byte, 16>& communicator, Purpose purpose) {
  return secret.derive(fmt::format("handshake {}", static_cast<int>(purpose)), communicator);
}

bool Handshake::collect(std::span<const std::byte>& data) {
  const std::size_t count = std::min(data.size(), wanted_ - received_);
  std::copy_n(data.begin(), count, buffer_.begin() + static_cast<std::ptrdiff_t>(received_));
  received_ += count;
  data = data.subspan(count);
  return received_ == wanted_;
}

void Handshake::expect(std::size_t bytes) {
  wanted_ = std::min(bytes, buffer_.size());
  received_ = 0;
}

void Handshake::fail(ErrorCode code, std::string reason) {
  state_ = HandshakeState::kRejected;
  code_ = code;
  reason_ = printable(std::move(reason));
}

SessionKeys Handshake::session() const {
  std::array<std::byte, kHelloBytes + kNonceBytes> both;
  std::ranges::copy(server_nonce_, std::ranges::copy(hello_bytes_, both.begin()).out);
  const Key client = key_.derive("session of the client", both);
  const Key server = key_.derive("session of the server", both);
  return client_ ? SessionKeys{client, server} : SessionKeys{server, client};
}

ClientHandshake::ClientHandshake(const Hello& hello, const Key& secret) : Handshake(true) {
  key_ = handshake_key(secret, hello.communicator, hello.purpose);
  ByteWriter writer;
  writer.raw(magic());
  writer.u16(kVersion);
  writer.u8(static_cast<std::uint8_t>(hello.purpose));
  writer.u8(0);
  writer.u32(hello.client_rank);
  writer.u32(hello.server_rank);
  writer.u32(hello.ranks);
  writer.raw(hello.communicator);
  writer.raw(random_bytes());
  std::ranges::copy(writer.view(), hello_bytes_.begin());
  expect(1);
}

std::vector<std::byte> ClientHandshake::feed(std::span<const std::byte>& data) {
  while (state_ == HandshakeState::kRunning && !data.empty()) {
    if (!collect(data)) break;
    ByteReader reader(message(), "the handshake");
    switch (step_) {
      case Step::kType:
        read_type(reader.u8());
        break;
      case Step::kChallenge: {
        server_nonce_ = reader.array<kNonceBytes>();
        if (!equal_in_constant_time(reader.raw(kMacBytes), key_.authenticate("server", hello_bytes_, server_nonce_))) {
          fail(ErrorCode::kUnauthorized,
               "the other side does not know this job's secret: is another job listening on this address, or was this "
               "rank started with another secret?");
          break;
        }
        proven_ = true;
        step_ = Step::kType;
        expect(1);
        const auto proof = key_.authenticate("client", hello_bytes_, server_nonce_);
        return {proof.begin(), proof.end()};
      }
      case Step::kAccept:
        if (equal_in_constant_time(reader.raw(kMacBytes), key_.authenticate("accept", hello_bytes_, server_nonce_))) {
          state_ = HandshakeState::kAccepted;
        } else {
          fail(ErrorCode::kUnauthorized, "the other side accepted without knowing this job's secret");
        }
        break;
      case Step::kRejectHead: {
        const std::uint8_t code = reader.u8();
        // Who has proven nothing does not say what kind of an end this is.
        reject_code_ = proven_ && known(code) ? static_cast<ErrorCode>(code) : ErrorCode::kUnauthorized;
        const std::size_t length = reader.u16();
        if (length == 0 || length > kMaxReason) {
          fail(reject_code_, "the other side refused this connection without a reason");
          break;
        }
        step_ = Step::kRejectText;
        expect(length);
        break;
      }
      case Step::kRejectText:
        fail(reject_code_, std::string(reinterpret_cast<const char*>(message().data()), message().size()));
        break;
    }
  }
  return {};
}

void ClientHandshake::read_type(std::uint8_t type) {
  if (type == kReject) {
    step_ = Step::kRejectHead;
    expect(3);
  } else if (type == kChallenge && !proven_) {
    step_ = Step::kChallenge;
    expect(kNonceBytes + kMacBytes);
  } else if (type == kAccept && proven_) {
    step_ = Step::kAccept;
    expect(kMacBytes);
  } else {
    fail(ErrorCode::kUnsupported,
         "what answers does not speak this protocol: another program listens there, or a proxy whose target is not "
         "there");
  }
}

ServerHandshake::ServerHandshake(std::uint32_t rank, const std::array<std::byte, 16>& communicator, const Key& secret,
                                 RankIn rank_in)
    : Handshake(false), rank_(rank), communicator_(communicator), secret_(secret), rank_in_(std::move(rank_in)) {
  server_nonce_ = random_bytes();
  expect(kHelloBytes);
}

std::vector<std::byte> ServerHandshake::feed(std::span<const std::byte>& data) {
  if (state_ != HandshakeState::kRunning || data.empty()) return {};
  const bool complete = collect(data);
  if (!greeted_) {
    // A stranger is recognised by its first bytes and gets no answer, however little it sends.
    const std::size_t seen = std::min(message().size(), kMagic.size());
    if (!std::ranges::equal(message().first(seen), magic().first(seen))) {
      fail(ErrorCode::kUnauthorized, "these are not the first bytes of a rank: some other program connected");
      return {};
    }
    return complete ? read_hello() : std::vector<std::byte>{};
  }
  if (!complete) return {};
  if (!equal_in_constant_time(message(), key_.authenticate("client", hello_bytes_, server_nonce_))) {
    return reject(ErrorCode::kUnauthorized,
                  "this connection does not know the job's secret: was it started by another "
                  "job, or with another TUTTI_SECRET?");
  }
  state_ = HandshakeState::kProven;
  return {};
}

std::vector<std::byte> ServerHandshake::read_hello() {
  std::ranges::copy(message(), hello_bytes_.begin());
  ByteReader reader(hello_bytes_, "the handshake");
  reader.raw(kMagic.size());
  const std::uint16_t version = reader.u16();
  const std::uint8_t purpose = reader.u8();
  reader.u8();
  hello_.client_rank = reader.u32();
  hello_.server_rank = reader.u32();
  hello_.ranks = reader.u32();
  hello_.communicator = reader.array<16>();
  if (version != kVersion) {
    return reject(
        ErrorCode::kMismatch,
        fmt::format("handshake version {} meets version {}: all ranks need the same tutti", version, kVersion));
  }
  if (purpose < static_cast<std::uint8_t>(Purpose::kMeet) || purpose > static_cast<std::uint8_t>(Purpose::kSurvivors)) {
    return reject(ErrorCode::kMismatch, fmt::format("unknown purpose {} of a connection", purpose));
  }
  hello_.purpose = static_cast<Purpose>(purpose);
  if (hello_.communicator != communicator_ && rank_in_) {
    if (const auto rank = rank_in_(hello_.communicator)) {
      communicator_ = hello_.communicator;
      rank_ = *rank;
    }
  }
  if (hello_.communicator != communicator_) {
    return reject(ErrorCode::kUnauthorized,
                  "another job or communicator meets at this address, or one with another TUTTI_SECRET: give every job "
                  "its own port or unique id, and all of its ranks one secret");
  }
  if (hello_.server_rank != rank_) {
    return reject(ErrorCode::kUnauthorized,
                  fmt::format("rank {} is not here: this is rank {}", hello_.server_rank, rank_));
  }
  key_ = handshake_key(secret_, communicator_, hello_.purpose);
  greeted_ = true;
  expect(kMacBytes);
  ByteWriter writer;
  writer.u8(kChallenge);
  writer.raw(server_nonce_);
  writer.raw(key_.authenticate("server", hello_bytes_, server_nonce_));
  return writer.take();
}

std::vector<std::byte> ServerHandshake::accept() {
  state_ = HandshakeState::kAccepted;
  ByteWriter writer;
  writer.u8(kAccept);
  writer.raw(key_.authenticate("accept", hello_bytes_, server_nonce_));
  return writer.take();
}

std::vector<std::byte> ServerHandshake::reject(ErrorCode code, std::string reason) {
  fail(code, std::move(reason));
  ByteWriter writer;
  writer.u8(kReject);
  writer.u8(static_cast<std::uint8_t>(code));
  writer.u16(static_cast<std::uint16_t>(this->reason().size()));
  writer.raw(std::as_bytes(std::span(this->reason().data(), this->reason().size())));
  return writer.take();
}

}  // namespace tutti
