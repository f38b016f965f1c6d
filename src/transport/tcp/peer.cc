#include "transport/tcp/peer.h"

#include <algorithm>
#include <utility>

#include "base/system_error.h"

namespace tutti {

TcpPeer::TcpPeer(int rank, bool lower, const TcpLimits& limits)
    : rank_(rank), lower_(lower), limits_(limits), channels_(static_cast<std::size_t>(limits.channels)) {}

TcpChannel& TcpPeer::channel(std::size_t index) {
  auto& channel = channels_[index];
  if (!channel) channel = std::make_unique<TcpChannel>(limits_);
  return *channel;
}

bool TcpPeer::take_request() {
  if (connected() || requested_ || !lost_.empty()) return false;
  requested_ = true;
  return true;
}

bool TcpPeer::attach(UniqueFd fd, bool initiated_here) {
  if (!lost_.empty() || !violation_.empty()) return false;
  const bool opened_by_lower = initiated_here == lower_;
  if (connected()) {
    // Only one that the peer has not accepted yet gives way, and only to the peer's own.
    if (usable_ || !opened_by_lower) return false;
  } else if (lower_ && !opened_by_lower && requested_ && !awaited_) {
    return false;  // this rank's own connection is on its way, and the peer waits for it or for our answer
  }
  socket_.emplace(std::move(fd), limits_);
  ends_ = socket_->ends();
  reader_ = FrameReader();
  usable_ = opened_by_lower || lower_;
  accept_due_ = lower_ && !opened_by_lower;
  blocked_ = false;
  pending_ = true;
  return true;
}

bool TcpPeer::write_turn(bool all_credit) {
  if (!wants_to_write()) return false;
  std::size_t budget = kTurnBytes + FrameHeader::kBytes;
  bool moved = false;
  while (budget > 0) {
    if (outgoing_.bytes == 0 && !next_frame(all_credit)) {
      pending_ = false;
      break;
    }
    const std::size_t head = outgoing_.written < FrameHeader::kBytes ? FrameHeader::kBytes - outgoing_.written : 0;
    const std::size_t body_at = std::max(outgoing_.written, FrameHeader::kBytes) - FrameHeader::kBytes;
    const std::size_t body =
        std::min(outgoing_.bytes - FrameHeader::kBytes - body_at, budget > head ? budget - head : 0);
    const SocketResult result = socket_->write({outgoing_.header.data() + FrameHeader::kBytes - head, head},
                                               {outgoing_.payload + body_at, body});
    if (result.kind == SocketResult::Kind::kAgain) {
      blocked_ = true;
      break;
    }
    if (result.kind == SocketResult::Kind::kEnded) {
      // The peer may have written all that it owed before it went; reading finds the end.
      write_error_ = result.error;
      break;
    }
    blocked_ = false;
    moved = true;
    budget -= std::min(budget, result.bytes);
    outgoing_.written += result.bytes;
    if (outgoing_.written == outgoing_.bytes) {
      if (outgoing_.channel != nullptr) outgoing_.channel->note_written(outgoing_.number);
      outgoing_.bytes = 0;
    }
  }
  return moved;
}

bool TcpPeer::next_frame(bool all_credit) {
  outgoing_.channel = nullptr;
  if (accept_due_) {
    accept_due_ = false;
    start({.kind = FrameKind::kAccept}, nullptr);
    return true;
  }
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    const std::size_t index = next_channel_;
    next_channel_ = index + 1 == channels_.size() ? 0 : index + 1;
    TcpChannel* const channel = channels_[index].get();
    if (channel == nullptr) continue;
    const std::byte* payload = nullptr;
    FrameHeader header;
    if (channel->has_message()) {
      header = channel->begin_message(payload);
      outgoing_.channel = channel;
      outgoing_.number = header.number;
    } else if (channel->owes_credit(all_credit)) {
      header = channel->credit_frame();
    } else {
      continue;
    }
    header.channel = static_cast<std::uint8_t>(index);
    start(header, payload);
    return true;
  }
  return false;
}

void TcpPeer::start(const FrameHeader& header, const std::byte* payload) {
  header.encode(outgoing_.header.data());
  outgoing_.payload = payload;
  outgoing_.bytes = FrameHeader::kBytes + header.length;
  outgoing_.written = 0;
}

bool TcpPeer::read_turn() {
  bool moved = false;
  for (std::size_t left = kTurnBytes; left > 0 && connected();) {
    std::span<std::byte> space = reader_.space();
    if (space.size() > left) space = space.first(left);
    const SocketResult result = socket_->read(space);
    if (result.kind == SocketResult::Kind::kAgain) break;
    moved = true;
    if (result.kind == SocketResult::Kind::kEnded) {
      lose(result.error == 0 ? "was closed by it" : "broke: " + errno_text(result.error));
      break;
    }
    left -= result.bytes;
    if (const char* problem = reader_.filled(result.bytes, *this)) {
      violation_ = problem;
      socket_.reset();
      break;
    }
    // What is not there yet, or not looked at yet, is for the next turn.
    if (result.bytes < space.size() || reader_.finished_large()) break;
  }
  return moved;
}

const char* TcpPeer::begin(const FrameHeader& header, std::byte*& destination) {
  if (header.kind == FrameKind::kAccept) {
    if (usable_) return "an answer to a connection that needs none";
    usable_ = true;
    return nullptr;
  }
  if (!usable_) return "data on a connection before it accepted it";
  if (header.channel >= channels_.size()) return "a frame of an unknown channel";
  return channel(header.channel).accept(header, destination);
}

void TcpPeer::finish(const FrameHeader& header) {
  if (header.kind == FrameKind::kMessage) channels_[header.channel]->arrived(header);
}

bool TcpPeer::written() const {
  if (outgoing_.bytes != 0 && lost_.empty()) return false;
  return std::none_of(channels_.begin(), channels_.end(),
                      [](const auto& channel) { return channel && channel->has_unwritten(); });
}

bool TcpPeer::flushed() const {
  if (!written()) return false;
  if (!lost_.empty()) return true;
  return !accept_due_ && std::none_of(channels_.begin(), channels_.end(),
                                      [](const auto& channel) { return channel && channel->owes_credit(true); });
}

void TcpPeer::post(std::size_t index, std::uint64_t number, std::byte* destination, std::uint32_t length,
                   std::uint64_t signature) {
  channel(index).post(number, destination, length, signature);
}

void TcpPeer::withdraw(std::size_t index) {
  const FrameHeader* incoming = connected() ? reader_.current() : nullptr;
  if (incoming != nullptr && incoming->channel != index) incoming = nullptr;
  if (std::byte* to = channel(index).withdraw(incoming, reader_.placed())) reader_.redirect(to);
}

void TcpPeer::lose(std::string why) {
  interrupted_ = connected() && !reader_.between_frames();
  socket_.reset();
  // A connection that the peer did not accept gave way to the peer's own, which is still to come.
  if (!usable_) return;
  lost_ = std::move(why);
}

void TcpPeer::lose_path(std::string why) {
  path_is_silent_ = true;
  lose(std::move(why));
}

std::optional<Deadline> TcpPeer::missed_since() {
  const bool missed = interrupted_ || std::any_of(channels_.begin(), channels_.end(), [](const auto& channel) {
                        return channel && (channel->has_unacknowledged() || channel->expects_message());
                      });
  if (!missed) {
    missed_since_.reset();
  } else if (!missed_since_) {
    missed_since_ = Clock::now();
  }
  return missed_since_;
}

bool TcpPeer::path_is_dead() const { return connected() && socket_->path_is_silent(limits_.silence); }

bool TcpPeer::take_path_warning() {
  if (path_warned_ || !connected() || !socket_->path_is_silent(limits_.silence / 6)) return false;
  path_warned_ = true;
  return true;
}

void TcpPeer::finish_writing() {
  if (connected()) socket_->finish_writing();
}

bool TcpPeer::delivered() { return !connected() || socket_->delivered(); }

}  // namespace tutti
