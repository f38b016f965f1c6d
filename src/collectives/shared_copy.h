#pragma once

#include "collectives/steps.h"
#include "schedule/layout.h"

// Two ranks of a host share the work of copying: of each two chunks the receiver reads the first out of the root's
// memory while the root writes the second into the receiver's output. Where one of them cannot be, because a buffer is
// not in memory that both map, it goes through a slot, and the root copies the second while the receiver copies the
// first.
namespace tutti {

struct SharedCopyBroadcast {
  static constexpr int kChunks = 2;

  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) { return layout.rank == root ? 3 : 2; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    if (layout.rank != root) return receive(only(root), output(index));
    if (index == 0) return readable(send(input(0), kEveryone));
    // The receiver does not use the place before.
    if (index == 1) return writable_at(readable(send(input(1), kEveryone)), 1);
    return copy(input(0), output(0), kChunks);
  }
};

}  // namespace tutti
