#pragma once

namespace tutti {

// The descriptors of the library's sockets in this process, so that a forked child can close its copies: otherwise a
// data loader that outlives its parent would keep connections open, and nobody would notice the parent's death.
// Any thread. The process-wide list exists from the first add() on; fork() is watched from then on, too.
class OpenSockets {
 public:
  static void add(int fd);
  static void remove(int fd);
};

}  // namespace tutti
