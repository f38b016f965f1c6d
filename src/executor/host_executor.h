#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executor/executor.h"

namespace tutti {

// Executes calls on the host by interpreting their steps.
class HostExecutor final : public Executor {
 public:
  explicit HostExecutor(const ExecutorParts& parts)
      : channels_(parts.channels),
        transports_(parts.transports),
        health_(parts.health),
        progress_(parts.progress),
        started_(parts.started),
        log_(parts.log),
        sleepers_(parts.sleepers),
        spin_(parts.spin) {}

  // Messages of calls whose chunks are no longer than this rotate through the small ring, as long as they fit.
  static constexpr std::size_t kSmallChunk = 2048;

  // Values shorter than this go through slots even where peers of this host could read them in place: copying them
  // costs less than the acknowledgement that the call must then wait for.
  void read_in_place_from(std::size_t bytes) { shortest_read_ = bytes; }

  void start(Call& call, std::size_t count, std::size_t chunk_bytes) override;
  Progress repeat(Call& call) override;
  Progress progress(Call& call) override;
  bool advanced() const override { return idle_turns_ <= 1; }
  int first_awaited(const Call& call) const override;
  const Mismatch& mismatch() const override { return mismatch_; }
  void withdraw() override;

 private:
  void begin(Call& call);
  bool go_straight(Call& call);
  Progress advance(Call& call, int channel);
  bool finish(const Call& call);
  bool buffers_released(const Call& call);
  void tell_owed_credit();
  void tell_progress(std::uint64_t sequence) {
    publish(progress_, sequence);  // observed by refresh_acknowledged()
    if (sleepers_ != nullptr) sleepers_->tell_others();
  }
  template <class Visit>
  void visit_awaited(const Call& call, Visit visit) const;
  void enter_in_log(Call& call, bool quick) {
    if (log_ == nullptr || call.entry != nullptr) return;
    call.entry = log_->enter(call.shape, call.sequence, call.signature, quick);
  }

  std::span<const std::unique_ptr<Channel>> channels_;
  std::span<Transport* const> transports_;
  Health& health_;
  Word& progress_;
  Word* started_;
  OperationLog* log_;
  Sleepers* sleepers_;
  const bool spin_;
  Mismatch mismatch_;
  std::size_t shortest_read_ = 16 * 1024;
  std::uint32_t idle_turns_ = 0;  // of progress(), since a step was done
};

}  // namespace tutti
