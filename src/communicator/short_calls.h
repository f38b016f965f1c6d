#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "communicator/arguments.h"
#include "executor/call.h"

namespace tutti {

// The last short calls of a communicator's rank, made ready: for the next call of the same shape nothing is chosen,
// bound or looked up again, which takes as long as the call itself. Owned by CollectiveCalls; used by whoever has the
// turn; never allocates.
class ShortCalls {
 public:
  // What was kept of a call of this shape, to run again with other buffers; null when nothing is.
  // REQUIRES: not a vector form.
  Call* find(const CallShape& shape) {
    Kept& kept = kept_[place_of(shape)];
    return kept.used && kept.kinds == kinds_of(shape) && kept.call.shape.count == shape.count ? &kept.call : nullptr;
  }

  // REQUIRES: Executor::start() has made it repeatable.
  void keep(const Call& call) {
    // A shape does not tell factors apart, and splits are not counted as calls.
    if (call.shape.op == ReduceOp::Kind::kPreMulSum || is_split(call.shape) || find(call.shape) != nullptr) return;
    Kept& kept = kept_[place_of(call.shape)];
    kept.kinds = kinds_of(call.shape);
    kept.call = call;
    kept.used = true;
  }

 private:
  static constexpr std::size_t kKept = 8;

  struct Kept {
    std::uint64_t kinds = 0;
    bool used = false;
    Call call;
  };

  static std::size_t place_of(const CallShape& shape) {
    const std::uint64_t mixed =
        shape.count ^ shape.count >> 3 ^ shape.root ^ static_cast<std::uint64_t>(shape.collective);
    return mixed % kKept;
  }

  std::array<Kept, kKept> kept_;
};

}  // namespace tutti
