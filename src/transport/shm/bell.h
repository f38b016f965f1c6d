#pragma once

#include <cstdint>
#include <mutex>

#include "base/handles.h"

namespace tutti {

// A thread that sleeps on descriptors is woken by its bell: a datagram socket with a random abstract name, which leaves
// nothing behind and takes one descriptor however many ranks may ring it. The name goes through shared memory; whoever
// learns it can wake the thread for nothing, and no more. One thread owns a bell; any process of the same network
// namespace rings it.
class Bell {
 public:
  // Without a bell (operator bool) when the system does not give a socket.
  Bell();

  explicit operator bool() const { return static_cast<bool>(socket_); }
  std::uint64_t name() const { return name_; }  // not 0
  // Readable once it was rung.
  int descriptor() const { return socket_.get(); }
  void silence() const;

 private:
  UniqueFd socket_;
  std::uint64_t name_ = 0;
};

// What rings bells. Any thread.
class BellRinger {
 public:
  // False: there is no such bell within reach. Never waits: a bell with a full queue has been rung. The first call
  // takes a descriptor, for as long as this lives.
  bool ring(std::uint64_t name);

 private:
  std::once_flag opened_;
  UniqueFd socket_;
};

}  // namespace tutti
