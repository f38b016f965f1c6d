#pragma once

#include <cstdint>

namespace tutti {

// How memory is written that another core reads next. It changes no bits, only time; each writer chooses for itself.
enum class StoreKind : std::uint8_t {
  kOrdinary,  // through this core's caches: best where the lines are its own, or belong to nobody
  // Past the caches, where whole vectors are aligned: the lines need not be fetched, nor taken back from a core that
  // still holds them. REQUIRES: finish_streaming_stores() between the last of them and whatever publishes them.
  kStreaming,
};

}  // namespace tutti
