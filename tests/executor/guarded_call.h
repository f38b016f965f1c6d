#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/call.h"
#include "executor/plan.h"
#include "schedule/algorithm.h"
#include "support/world.h"

namespace tutti {

enum class Buffers { kPrivate, kShared };

// A buffer of floats with guards around it.
class GuardedBuffer {
 public:
  GuardedBuffer(std::size_t elements, Buffers kind);
  float* data() { return begin_ + kGuard; }
  std::size_t size() const { return elements_; }
  bool guards_untouched() const;
  // Every element becomes something that no result is.
  void scribble();
  bool scribble_untouched() const;

 private:
  static constexpr std::size_t kGuard = 64;  // elements on each side

  std::size_t elements_;
  std::vector<float> private_;
  std::shared_ptr<void> shared_;  // has the shared heap's deleter
  float* begin_;
};

struct CallSetup {
  const Algorithm* algorithm = nullptr;
  int root = 0;
  std::size_t count = 0;
  bool in_place = false;
  std::size_t chunk_bytes = 512;
  int channels = 1;
  Buffers buffers = Buffers::kPrivate;

  std::string text() const;
};

// One rank's part in a call of floats on a World, whose inputs are those of reference.h.
class GuardedCall {
 public:
  GuardedCall(World& world, int rank, const CallSetup& setup, std::uint64_t sequence);

  // Makes the call ready to run: before its first turn.
  void start();
  Call& call() { return call_; }
  // What is wrong now that it is done; "" when nothing is.
  std::string problem();
  // The caller does something else with its buffers, now that the call has ended.
  void reuse_buffers();
  // The same where the call has failed. Peers that do not know yet may write on to an output in the library's memory.
  void abandon();
  // "" when nobody has written to them since who must not, nor ever around them.
  std::string problem_since();

 private:
  World& world_;
  const int rank_;
  const CallSetup setup_;
  Plan plan_;
  Call call_;
  std::unique_ptr<GuardedBuffer> input_;  // null in place
  std::unique_ptr<GuardedBuffer> output_;
  bool abandoned_ = false;
  float* in_ = nullptr;
  float* out_ = nullptr;
};

}  // namespace tutti
