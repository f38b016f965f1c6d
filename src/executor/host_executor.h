#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "executor/distance_watch.h"
#include "executor/executor.h"
#include "executor/neighbours.h"
#include "executor/straight_line.h"

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
        long_call_(parts.long_call),
        notice_(parts.notice),
        log_(parts.log),
        sleepers_(parts.sleepers),
        neighbours_(parts.processor),
        looks_(neighbours_.share() || !transports_.empty() ? 0 : kFirstLooks) {}
  HostExecutor(const HostExecutor&) = delete;
  HostExecutor& operator=(const HostExecutor&) = delete;
  ~HostExecutor() override;

  // Messages of calls whose chunks are no longer than this rotate through the small ring, as long as they fit.
  static constexpr std::size_t kSmallChunk = 2048;

  // Values shorter than this go through slots even where peers of this host could read them in place: copying them
  // costs less than the acknowledgement that the call must then wait for.
  void read_in_place_from(std::size_t bytes) {
    shortest_read_ = bytes;
    shortest_answered_read_ = bytes;
  }

  void start(Call& call, std::size_t count, std::size_t chunk_bytes) override;
  Progress repeat(Call& call) override;
  Progress progress(Call& call) override;
  bool advanced() const override { return idle_turns_ <= 1; }
  int first_awaited(const Call& call) const override;
  const Mismatch& mismatch() const override { return mismatch_; }
  void withdraw() override;
  void take_back_outputs() override;

 private:
  // How often a step that is tried for the first time looks for a message that is late: a microsecond or two, in which
  // most of them come. Leaving the call and coming back to the step takes as long as a hop between near ranks.
  static constexpr int kFirstLooks = 64;

  void find_buffers(Call& call);
  void begin(Call& call);
  bool go_straight(Call& call);
  Progress advance(Call& call, int channel);
  bool finish(Call& call);
  bool buffers_released(const Call& call);
  void watch_distances(const Call& call, std::size_t bytes);
  void look_at_distance(std::uint64_t sequence);
  void set_distance();
  bool peers_have_ended(std::uint64_t sequence) const;
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
  Word* long_call_;
  Line* notice_;
  OperationLog* log_;
  Sleepers* sleepers_;
  const Neighbours neighbours_;
  const int looks_;  // kFirstLooks, where nobody else needs the processor meanwhile
  Mismatch mismatch_;
  // Pages of an output that peers may write to until they have ended a call.
  struct Lent {
    SharedHeap::Location pages;
    std::byte* address;  // of the first of them
    std::uint64_t sequence;
  };
  std::optional<Lent> lent_;  // by the call under way
  std::vector<Lent> held_;    // by calls that have failed
  std::size_t shortest_read_ = 16 * 1024;
  std::size_t shortest_answered_read_ = 1024;  // where the readers answer anyway
  std::vector<DistanceWatch> watches_;         // by rank; made by the first call that is long enough to care
  std::size_t unwatched_ = 0;                  // what has been called since the last look, see kBetweenLooks
  std::uint32_t looks_taken_ = 0;
  int looked_at_ = -1;            // the peer whose distance this call looks at, once it has begun; -1: none
  std::uint32_t idle_turns_ = 0;  // of progress(), since a step was done
};

}  // namespace tutti
