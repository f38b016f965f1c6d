#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/frame_reader.h"
#include "transport/tcp/limits.h"
#include "transport/tcp/socket.h"

namespace tutti {

// All that the transport knows of one other rank: its channels, and the connection that carries them. Owned by
// TcpTransport and used under its lock. Nothing here waits or fails the communicator; problems are kept for the
// transport to ask for.
class TcpPeer final : private FrameSink {
 public:
  // `lower`: this rank's number is below the peer's. Its connection wins when both open one.
  TcpPeer(int rank, bool lower, const TcpLimits& limits);

  int rank() const { return rank_; }
  // Made on first use from either side: the peer may use a channel before this rank does. Throws Error(kSystem).
  TcpChannel& channel(std::size_t index);

  // Whether somebody should ask for a connection; true once.
  bool take_request();
  // Takes the socket or closes it; see TcpTransport::attach. Returns whether it was taken.
  bool attach(UniqueFd fd, bool initiated_here);
  // No connection of this rank's own is on its way, whatever it has asked for.
  void await(bool waits) { awaited_ = waits; }
  bool connected() const { return socket_.has_value(); }
  int descriptor() const { return socket_->descriptor(); }

  // There may be something to write.
  void wake() { pending_ = true; }
  // Something waits until the socket takes more.
  bool wants_to_write() const { return pending_ && connected() && usable_ && write_error_ == 0; }
  bool blocked() const { return blocked_; }
  void unblock() { blocked_ = false; }
  // What the transport asked its epoll descriptor for.
  bool watched_for_output() const { return watched_for_output_; }
  void set_watched_for_output(bool watched) { watched_for_output_ = watched; }

  // At most kTurnBytes each. Return whether anything moved. `all_credit`: also what could wait for a message.
  static constexpr std::size_t kTurnBytes = 128 * 1024;
  bool write_turn(bool all_credit);
  bool read_turn();
  // Every message published was given to the system.
  bool written() const;
  // The same, and all credit owed was given to the system (or the peer is gone and misses no message).
  bool flushed() const;

  void post(std::size_t channel, std::uint64_t number, std::byte* destination, std::uint32_t length,
            std::uint64_t signature);
  void withdraw(std::size_t channel);

  // The connection ended: why, for "the connection to rank 3 <was reset>"; empty while it did not.
  const std::string& lost() const { return lost_; }
  // Declares it ended.
  void lose(std::string why);
  // The same, because nothing comes through.
  void lose_path(std::string why);
  bool path_is_silent() const { return path_is_silent_; }
  // Since when something is expected from or owed to a peer whose connection is lost; nothing if there is not.
  std::optional<Deadline> missed_since();
  // What was wrong with what the peer sent; empty: nothing.
  const std::string& violation() const { return violation_; }

  bool path_is_dead() const;
  // The same for a sixth of that time; true once.
  bool take_path_warning();
  // This rank's end of the connection and the peer's. "" before there was one.
  const std::string& ends() const { return ends_; }
  // When somebody asked first, who waits for the peer's end of the connection.
  Deadline end_awaited_since() {
    if (!end_awaited_since_) end_awaited_since_ = Clock::now();
    return *end_awaited_since_;
  }
  void finish_writing();
  bool delivered();

 private:
  // The frame on its way out.
  struct Outgoing {
    std::array<std::byte, FrameHeader::kBytes> header;
    const std::byte* payload = nullptr;
    std::size_t bytes = 0;  // header and payload; 0: none
    std::size_t written = 0;
    TcpChannel* channel = nullptr;  // of a message
    std::uint64_t number = 0;
  };

  bool next_frame(bool all_credit);
  void start(const FrameHeader& header, const std::byte* payload);
  const char* begin(const FrameHeader& header, std::byte*& destination) override;
  void finish(const FrameHeader& header) override;

  const int rank_;
  const bool lower_;
  const TcpLimits& limits_;
  std::vector<std::unique_ptr<TcpChannel>> channels_;
  std::size_t next_channel_ = 0;  // whose turn it is to send

  std::optional<TcpSocket> socket_;
  FrameReader reader_;
  Outgoing outgoing_;
  bool requested_ = false;
  bool awaited_ = false;
  bool usable_ = false;      // both sides know that this connection is the one
  bool accept_due_ = false;  // the peer has yet to be told so
  bool pending_ = false;
  bool blocked_ = false;
  bool watched_for_output_ = false;
  int write_error_ = 0;  // nothing can be written, but what came before may still be read
  std::string ends_;
  bool path_warned_ = false;
  bool path_is_silent_ = false;
  std::string lost_;
  std::string violation_;
  bool interrupted_ = false;  // lost in the middle of a frame
  std::optional<Deadline> missed_since_;
  std::optional<Deadline> end_awaited_since_;
};

}  // namespace tutti
