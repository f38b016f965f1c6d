#include "communicator/rotation.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace tutti {

namespace {

// Nobody whose calls are on their way can be destroyed.
void enter_all(std::initializer_list<Batch*> batches) {
  for (Batch* batch : batches) {
    for (PendingCall& call : *batch) call.operation->context().check_usable("a call of a stream or group");
  }
  for (Batch* batch : batches) {
    for (PendingCall& call : *batch) {
      CallContext& context = call.operation->context();
      if (!context.outstanding().enter()) throw context.closed_error("a call of a stream or group");
      call.outstanding.reset(&context.outstanding());
    }
  }
}

}  // namespace

void issue_calls(Batch& collectives, Batch& transfers, detail::WorkState* group) {
  enter_all({&collectives, &transfers});
  const Clock::time_point now = Clock::now();
  for (Batch* batch : {&collectives, &transfers}) {
    for (PendingCall& call : *batch) {
      call.operation->issued_at(now);
      call.operation->issue();
      call.work->issue(1, call.operation->sequence(), now);
    }
  }
  if (group != nullptr) group->issue(collectives.size() + transfers.size(), 0, now);
}

template <class Function>
void Rotation::for_each_active(Function function) {
  if (!queue_.empty()) std::ranges::for_each(queue_.front(), function);
  std::ranges::for_each(transfers_, function);
}

void Rotation::add(Batch collectives, Batch transfers) {
  if (!collectives.empty()) queue_.push_back(std::move(collectives));
  std::ranges::move(transfers, std::back_inserter(transfers_));
  find_contexts();
}

bool Rotation::round(Waiter& waiter) {
  bool moved = false;
  for_each_active([&](PendingCall& call) { moved |= carry_on(call); });
  moved |= progress_transports(waiter);
  if (some_ended_) retire(waiter);
  if (moved) waiter.reset();
  waiter.listen_to(sleepers_, transports_);
  return moved;
}

bool Rotation::carry_on(PendingCall& call) {
  if (call.ended) return false;
  Operation& operation = *call.operation;
  const Progress progress = operation.progress();
  if (!call.started && operation.running()) {
    call.started = true;
    call.work->start(Clock::now());
  }
  if (progress == Progress::kAgain) {
    if (!operation.advanced()) return false;
    operation.note_moved();
    operation.note_advanced();
    return true;
  }
  call.ended = some_ended_ = true;
  call.failed = progress == Progress::kFailed;
  return true;
}

bool Rotation::progress_transports(Waiter& waiter) {
  bool moved = false;
  for (CallContext* context : contexts_) {
    if (!context->progress_transports()) continue;
    moved = true;
    waiter.reset();
    context->sleepers().tell_own();  // it may be for another thread
    for_each_active([&](PendingCall& call) {
      if (!call.ended && &call.operation->context() == context) call.operation->note_moved();
    });
  }
  return moved;
}

// A communicator may go as soon as its last call has: it is forgotten before.
void Rotation::retire(Waiter& waiter) {
  some_ended_ = false;
  waiter.reset();
  Batch retired;
  const auto collect = [&retired](Batch& batch) {
    const auto first = std::stable_partition(batch.begin(), batch.end(), [](const auto& call) { return !call.ended; });
    std::move(first, batch.end(), std::back_inserter(retired));
    batch.erase(first, batch.end());
  };
  std::ranges::for_each(queue_, collect);
  std::erase_if(queue_, [](const Batch& batch) { return batch.empty(); });
  collect(transfers_);
  find_contexts();

  const Clock::time_point now = Clock::now();
  for (PendingCall& call : retired) {
    const std::optional<Error> error = call.failed ? std::optional(call.operation->error()) : std::nullopt;
    const int source = call.operation->source();
    const std::size_t count = call.operation->received();
    call.operation.reset();
    const std::shared_ptr<detail::WorkState> group = call.work->group();
    call.work->end_call(error, source, count, now, false);
    const bool calls_back = call.work->calls_back();
    if (group == nullptr || calls_back) ended_.push_back(std::move(call.work));
    if (group != nullptr && group->end_call(error, -1, 0, now, calls_back)) ended_.push_back(group);
    call.outstanding.reset();  // last: whoever destroys the communicator finds its Works done
    call.home.reset();
  }
}

void Rotation::find_contexts() {
  contexts_.clear();
  transports_.clear();
  sleepers_.clear();
  for_each_active([this](const PendingCall& call) {
    CallContext* context = &call.operation->context();
    if (std::ranges::find(contexts_, context) != contexts_.end()) return;
    contexts_.push_back(context);
    sleepers_.push_back(&context->sleepers());
    transports_.insert(transports_.end(), context->transports().begin(), context->transports().end());
  });
}

void Rotation::look_around(Waiter& waiter) {
  const Clock::time_point now = Clock::now();
  for (Batch& batch : queue_) {
    for (PendingCall& call : batch) call.operation->look_around(now);
  }
  for (PendingCall& call : transfers_) call.operation->look_around(now);
  // What its communicator has failed need not wait for what stands before it.
  for (std::size_t i = 1; i < queue_.size(); ++i) {
    for (PendingCall& call : queue_[i]) {
      if (call.operation->is_doomed()) carry_on(call);
    }
  }
  if (some_ended_) retire(waiter);
  due_ = Clock::time_point::max();
  for (const Batch& batch : queue_) {
    for (const PendingCall& call : batch) due_ = std::min(due_, call.operation->due());
  }
  for (const PendingCall& call : transfers_) due_ = std::min(due_, call.operation->due());
}

}  // namespace tutti
