#pragma once

#include <sched.h>

#include <cstdint>

#include "base/sync.h"
#include "transport/endpoint.h"

namespace tutti {

// Which ranks share a processor, on hosts that have more ranks than processors. Whoever waits for a neighbour must give
// the processor away, at once; whoever waits for nobody but ranks on other processors loses by it, because the rank
// that he gives it to waits, too, and his message comes meanwhile.
//
// Each rank says where it ran last, which costs one load while it stays there. It may have moved since, so this is a
// hint. One per rank; used by whichever thread executes its calls.
class Neighbours {
 public:
  // own: the word that tells peers where this rank runs; null: every rank has a processor, nobody asks.
  explicit Neighbours(Word* own) : own_(own) {}

  bool share() const { return own_ != nullptr; }

  // This rank runs here.
  void tell() const {
    const auto here = static_cast<std::uint64_t>(::sched_getcpu()) + 1;
    if (peek(*own_) != here) note(*own_, here);  // seen by may_include() at the peers
  }

  // Whether the peer ran last where this rank runs, as far as anybody knows.
  bool may_include(const Endpoint& peer) const {
    if (peer.processor_in == nullptr) return false;  // on another host
    const std::uint64_t processor = peek(*peer.processor_in);
    return processor == 0 || processor == peek(*own_);
  }

  void let_run() const {
    ::sched_yield();
    tell();
  }

 private:
  Word* own_;
};

}  // namespace tutti
