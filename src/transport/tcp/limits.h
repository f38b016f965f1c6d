#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "transport/endpoint.h"

namespace tutti {

// What both ends of a TCP connection agree on before they talk, and how patient this one is. The first three must be
// equal on all ranks of a communicator: they bound what a peer may send and what is kept for it.
struct TcpLimits {
  int channels = kMaxChannels + 3;  // endpoints a pair of ranks may have; at most 255
  std::uint32_t window = 4;         // messages in flight of each connection, a power of two
  std::uint32_t max_message_bytes = 1024 * 1024;

  // Of each socket, each way. With half of it exchanges of megabytes stall: benchmarks/tcp_exchange.
  int socket_buffer_bytes = 1024 * 1024;
  // From the end of a connection until it is an error that something was expected of it: the control plane usually
  // knows better by then.
  std::chrono::milliseconds lost_grace{1000};
  // A path that has acknowledged nothing for so long, though data was repeated, is dead. A warning comes after a sixth.
  std::chrono::milliseconds silence{30000};
  // How long the destructor waits for the peers' systems to have taken everything.
  std::chrono::milliseconds close_wait{10000};
};

}  // namespace tutti
