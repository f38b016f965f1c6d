#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/health.h"
#include "executor/call.h"
#include "executor/channel.h"
#include "transport/transport.h"

namespace tutti {

// Executes calls on the host by interpreting their steps. One per communicator and rank; it has no thread of its own:
// whoever calls progress() lends it one. Calls are executed one after the other, each by one thread at a time.
//
// Never sleeps; allocates only when scratch memory grows.
class HostExecutor {
 public:
  // progress: this rank's word that peers read when they lack credit.
  HostExecutor(std::span<const std::unique_ptr<Channel>> channels, std::span<Transport* const> transports,
               Health& health, Word& progress)
      : channels_(channels), transports_(transports), health_(health), progress_(progress) {}

  // Messages of calls whose chunks are no longer than this rotate through the small ring, as long as they fit.
  static constexpr std::size_t kSmallChunk = 2048;

  // Values shorter than this go through slots even where peers of this host could read them in place: copying them
  // costs less than the acknowledgement that the call must then wait for.
  void read_in_place_from(std::size_t bytes) { shortest_read_ = bytes; }

  // Makes a call ready to run: `call` has its plan, buffers, types, sequence and signature; count and chunk_bytes give
  // the rest. Throws Error(kSystem) when memory for a long message is not to be had.
  void start(Call& call, std::size_t count, std::size_t chunk_bytes);

  // Carries the call on as far as it goes. kAgain: it waits for a peer. kFailed: the communicator has failed and Health
  // has the reason, or mismatch() tells why it has to fail.
  Progress progress(Call& call);
  // Whether the last progress() that answered kAgain had done a step before it got stuck.
  bool advanced() const { return idle_turns_ <= 1; }

  // After a call has failed: from now on no transport writes to the caller's buffers.
  void withdraw();

  // What a message that does not belong to this call looked like; set when progress() failed for it.
  struct Mismatch {
    int peer = -1;
    std::uint64_t signature = 0;
  };
  const Mismatch& mismatch() const { return mismatch_; }

 private:
  Progress advance(Call& call, int channel);
  bool finish(const Call& call);
  bool buffers_released(const Call& call);
  void tell_owed_credit();

  std::span<const std::unique_ptr<Channel>> channels_;
  std::span<Transport* const> transports_;
  Health& health_;
  Word& progress_;
  Mismatch mismatch_;
  std::size_t shortest_read_ = 16 * 1024;
  std::uint32_t idle_turns_ = 0;  // of progress(), since a step was done
};

}  // namespace tutti
