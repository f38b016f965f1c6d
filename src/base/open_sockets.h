#pragma once

#include "base/handles.h"

namespace tutti {

// Opens the library's sockets: those that a forked child must close its copies of. Otherwise a data loader that
// outlives its parent would keep connections open, and nobody would notice the parent's death. Any thread.
class OpenSockets {
 public:
  // By a call like ::socket() or ::accept4() that does not block. A fork comes before it or after the socket is listed,
  // never in between. errno is the call's.
  template <class Call>
  static UniqueFd open(Call call) {
    lock();
    const int fd = above_standard_streams(call());
    list_and_unlock(fd);
    return UniqueFd(fd);
  }

 private:
  static void lock();
  static void list_and_unlock(int fd);
};

}  // namespace tutti
