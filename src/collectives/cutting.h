#pragma once

#include <cstddef>

#include "collectives/cost_model.h"
#include "schedule/algorithm.h"
#include "schedule/layout.h"

// Into which chunks, rounds and channels calls are cut.
namespace tutti {

struct CuttingLimits {
  std::size_t ring_bytes = 1 << 20;  // slot ring of one rank and channel
  std::size_t chunk_bytes = 0;       // largest chunk asked for; 0: free
  int channels = 1;                  // that there are
  bool all_channels = false;         // use them all wherever there are rounds for them
};

// The largest chunk of an algorithm, a multiple of a cache line. 0: not even the smallest would fit the slot ring.
//
// On one host a rank's part of a round is up to 512 KiB, and the ring holds what must be unread at once twice, because
// messages do not wrap. Where rounds flow one way, chunks of 64 KiB let the reader begin early. Between hosts chunks
// are 64 to 128 KiB, the pieces in which a TCP exchange is fastest.
std::size_t chunk_bytes_for(const Chunking& chunking, const Layout& layout, const CuttingLimits& limits,
                            bool flows = false);

// bytes: as for Algorithm::cost.
Cut cut_call(Collective collective, const Chunking& chunking, const Layout& layout, double bytes,
             std::size_t chunk_bytes, const CuttingLimits& limits);

}  // namespace tutti
