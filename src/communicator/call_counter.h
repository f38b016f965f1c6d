#pragma once

#include <cstddef>

#include "base/sync.h"
#include "tutti/communicator.h"

namespace tutti {

// Calls of one kind that have ended well. Any thread.
class CallCounter {
 public:
  // By whoever has the turn: no other thread counts beside it, and a counted call costs no locked instruction.
  void count_in_turn(std::size_t bytes) {
    note(calls_, peek(calls_) + 1);
    note(bytes_, peek(bytes_) + bytes);
  }
  void count(std::size_t bytes) {
    add(calls_, 1);
    add(bytes_, bytes);
  }
  Statistics::PerCollective read() const { return {peek(calls_), peek(bytes_)}; }

 private:
  Word calls_{0};
  Word bytes_{0};
};

}  // namespace tutti
