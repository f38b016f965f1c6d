#include "communicator/group_calls.h"

#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "base/log.h"
#include "communicator/stream_engine.h"
#include "executor/waiter.h"

namespace tutti {

namespace {

// Calls that are not issued, from that place on: their Works end with this error, and may call back.
void end_from(Batch& calls, std::size_t first, const char* error) {
  const auto begin = calls.begin() + static_cast<std::ptrdiff_t>(first);
  const Batch dropped(std::make_move_iterator(begin), std::make_move_iterator(calls.end()));
  calls.erase(begin, calls.end());
  for (const PendingCall& call : dropped) call.work->end_without_calls(Error(ErrorCode::kAborted, error));
}

}  // namespace

GroupCalls::GroupCalls(Stream stream)
    : stream_(stream),
      work_(std::make_shared<detail::WorkState>(stream.engine() == nullptr ? nullptr
                                                                           : stream.engine()->shared_from_this())) {
  current_ = this;
}

GroupCalls::~GroupCalls() {
  if (current_ == this) current_ = nullptr;
}

Work GroupCalls::add(Batch& batch, PendingCall call) {
  detail::StreamEngine* const engine = stream_.engine();
  call.work = std::make_shared<detail::WorkState>(engine == nullptr ? nullptr : engine->shared_from_this(), work_);
  batch.push_back(std::move(call));
  return batch.back().work->work();
}

GroupCalls::Mark GroupCalls::begin_level(std::chrono::milliseconds limit) {
  ++levels_;
  const std::chrono::milliseconds outer = limit.count() > 0 ? std::exchange(limit_, limit) : limit_;
  return {collectives_.size(), transfers_.size(), openings_.size(), outer};
}

void GroupCalls::end_level(const Mark& mark) {
  --levels_;
  limit_ = mark.limit;
}

void GroupCalls::check_thread() const {
  if (thread_ == std::this_thread::get_id()) return;
  log_line(LogLevel::kError,
           "a Group is destroyed by another thread than the one that made it: keep it on that thread's stack");
  std::terminate();
}

void GroupCalls::check_innermost(std::size_t level) const {
  if (thread_ != std::this_thread::get_id()) {
    throw Error(ErrorCode::kInvalidArgument, "a group is ended by another thread than the one that made it");
  }
  if (level != levels_) throw Error(ErrorCode::kInvalidArgument, "a group is ended before a group inside it");
}

void GroupCalls::drop_from(const Mark& mark) {
  openings_.resize(mark.openings);
  end_from(collectives_, mark.collectives, kNotEnded);
  end_from(transfers_, mark.transfers, kNotEnded);
}

void GroupCalls::run() {
  if (current_ == this) current_ = nullptr;
  try {
    if (!openings_.empty()) open_all(openings_);
    if (collectives_.empty() && transfers_.empty()) return work_->end_without_calls(std::nullopt);
    if (stream_.engine() != nullptr) return stream_.engine()->issue(collectives_, transfers_, work_, work_.get());
    issue_calls(collectives_, transfers_, work_.get());
  } catch (const std::exception& error) {
    const std::string reason = std::string("its group failed: ") + error.what();
    end_from(collectives_, 0, reason.c_str());
    end_from(transfers_, 0, reason.c_str());
    work_->end_without_calls(Error(ErrorCode::kAborted, reason));
    throw;
  }
  drive();
  work_->wait(std::nullopt);
}

void GroupCalls::drive() {
  bool spin = true;
  for (const Batch* batch : {&collectives_, &transfers_}) {
    for (const PendingCall& call : *batch) spin &= call.operation->context().spin();
  }
  Rotation rotation;
  rotation.add(std::move(collectives_), std::move(transfers_));
  Waiter waiter(spin);
  std::uint32_t turns = 0;
  while (!rotation.empty()) {
    const bool moved = rotation.round(waiter);
    if ((!moved && waiter.pause()) || ++turns % Rotation::kRoundsPerLook == 0) {
      rotation.look_around(waiter);
      waiter.wake_by(rotation.due());
    }
  }
  for (const auto& work : rotation.ended()) work->settle();
}

}  // namespace tutti
