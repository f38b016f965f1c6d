#include "collectives/cutting.h"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

constexpr std::size_t kGranule = 64;
constexpr std::size_t kLocalRound = 512 * 1024;
constexpr std::size_t kLocalFlow = 64 * 1024;
constexpr std::size_t kRemoteRound = 512 * 1024;
constexpr std::size_t kSmallestRemoteChunk = 64 * 1024;
constexpr std::size_t kLargestRemoteChunk = 128 * 1024;
constexpr int kRemoteChannels = 2;  // one computes while the other's messages travel

// How many blocks the larger side of a call has.
double blocks(Collective collective, const Layout& layout) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kBarrier:
      return 1;
    default:
      return layout.ranks;
  }
}

}  // namespace

std::size_t chunk_bytes_for(const Chunking& chunking, const Layout& layout, const CuttingLimits& limits, bool flows) {
  const std::size_t chunks = static_cast<std::size_t>(chunking.chunks);
  const std::size_t room = limits.ring_bytes / (2 * static_cast<std::size_t>(chunking.slot_chunks));
  std::size_t bytes = layout.hosts == 1 ? kLocalRound / chunks
                                        : std::clamp(kRemoteRound / chunks, kSmallestRemoteChunk, kLargestRemoteChunk);
  if (layout.hosts == 1 && flows) bytes = std::min(bytes, kLocalFlow * static_cast<std::size_t>(chunking.flow));
  if (limits.chunk_bytes > 0) bytes = limits.chunk_bytes;
  bytes = std::min(std::max(bytes, kGranule), room);
  return bytes / kGranule * kGranule;
}

Cut cut_call(Collective collective, const Chunking& chunking, const Layout& layout, double bytes,
             std::size_t chunk_bytes, const CuttingLimits& limits) {
  const double block = bytes / blocks(collective, layout);
  const double round = static_cast<double>(chunk_bytes) * chunking.chunks;
  Cut cut;
  cut.rounds = std::max(std::ceil(block / round), 1.0);
  cut.chunk_bytes = std::min(static_cast<double>(chunk_bytes), block / chunking.chunks);
  const int wanted = limits.all_channels ? limits.channels : layout.hosts > 1 ? kRemoteChannels : 1;
  cut.channels = std::min({cut.rounds, static_cast<double>(wanted), static_cast<double>(limits.channels)});
  return cut;
}

}  // namespace tutti
