#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "communicator/arguments.h"
#include "executor/call.h"

namespace tutti {

// A call that is over, and what of it holds for the next of its shape.
struct ShortCall {
  std::uint64_t kinds = 0;  // kinds_of() its shape
  std::size_t bytes = 0;    // that statistics count
  bool used = false;
  Call call;
};

// The last short calls of a communicator's rank: for the next call of the same shape nothing is chosen or bound again,
// and no operation made if its peers are in time. That takes as long as a call of some bytes, and a tenth of one of
// 32 KiB. Owned by CollectiveCalls; used by whoever has the turn; never allocates.
class ShortCalls {
 public:
  // What was kept of a call of this shape; null when nothing was. REQUIRES: not a vector form.
  ShortCall* find(const CallShape& shape) {
    ShortCall& kept = kept_[place_of(shape)];
    return kept.kinds == kinds_of(shape) && kept.call.shape.count == shape.count && kept.used ? &kept : nullptr;
  }

  // REQUIRES: Executor::start() has made it repeatable.
  void keep(const Call& call, std::size_t bytes) {
    // A shape does not tell factors apart, and splits are not counted as calls.
    if (call.shape.op == ReduceOp::Kind::kPreMulSum || is_split(call.shape) || find(call.shape) != nullptr) return;
    kept_[place_of(call.shape)] = {kinds_of(call.shape), bytes, true, call};
  }

 private:
  static constexpr std::size_t kKept = 8;

  static std::size_t place_of(const CallShape& shape) {
    // Counts are most often multiples of a power of two: the upper bits of a product depend on all of theirs.
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
    return ((shape.count * kGolden >> 32) ^ shape.root ^ static_cast<std::uint64_t>(shape.collective)) % kKept;
  }

  std::array<ShortCall, kKept> kept_;
};

}  // namespace tutti
