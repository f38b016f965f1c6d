#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/handles.h"
#include "transport/tcp/limits.h"

namespace tutti {

// What became of one attempt to read or write.
struct SocketResult {
  enum class Kind { kMoved, kAgain, kEnded } kind;
  std::size_t bytes = 0;  // kMoved: at least 1
  int error = 0;          // kEnded: errno, or 0 at the end of the stream
};

// A connected stream socket, used without waiting. Owned by TcpPeer; one thread at a time.
class TcpSocket {
 public:
  // Sets what the connection needs: no delay, buffers, keepalive. Options that this kind of socket lacks are left out.
  TcpSocket(UniqueFd fd, const TcpLimits& limits);

  int descriptor() const { return fd_.get(); }

  // One system call each; interrupted calls are repeated, nothing raises SIGPIPE.
  SocketResult read(std::span<std::byte> into);
  SocketResult write(std::span<const std::byte> head, std::span<const std::byte> body);

  // The system has repeated data for so long and heard nothing back.
  bool path_is_silent(std::chrono::milliseconds silence) const;
  // "10.0.0.1:4000 to 10.0.0.2:5000": this end and the other.
  std::string ends() const;

  // Nothing more will be written.
  void finish_writing();
  // The peer's system has everything that was written, or never will: closing the socket loses nothing more.
  bool delivered();

 private:
  UniqueFd fd_;
};

// The rule behind path_is_silent(), from the fields of tcp_info: a peer that answers, even if only to say that it has
// no room, is alive; a path is dead when data was repeated and nothing came back for long.
constexpr bool silent_path(std::uint32_t unacked, std::uint32_t retransmits, std::uint32_t ms_since_ack,
                           std::chrono::milliseconds silence) {
  return unacked > 0 && retransmits > 0 && std::chrono::milliseconds(ms_since_ack) >= silence;
}

}  // namespace tutti
