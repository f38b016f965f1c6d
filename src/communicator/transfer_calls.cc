#include <fmt/format.h>

#include <new>
#include <string>

#include "communicator/session.h"
#include "executor/waiter.h"

// What a Session does for a send or a receive.
namespace tutti {

void Session::send(const void* input, std::size_t count, DataType type, int to, int tag) {
  check_open("send");
  check_transfer({"send", input, count, type, to, false}, ranks(), name_);
  Transfer transfer;
  transfer.peer = to;
  transfer.tag = tag;
  transfer.type = type;
  transfer.count = count;
  transfer.input = static_cast<const std::byte*>(input);
  drive(transfer, true);
  count_call(sends_, transfer.bytes());
}

int Session::receive(void* output, std::size_t count, DataType type, int from, int tag) {
  check_open("recv");
  check_transfer({"recv", output, count, type, from, true}, ranks(), name_);
  Transfer transfer;
  transfer.peer = from;
  transfer.tag = tag;
  transfer.type = type;
  transfer.count = count;
  transfer.output = static_cast<std::byte*>(output);
  drive(transfer, false);
  count_call(receives_, transfer.bytes());
  return transfer.peer;
}

void Session::drive(Transfer& transfer, bool sending) {
  Waiter waiter(transports_, spin_);
  std::optional<Clock::time_point> gone_since;
  while (true) {
    Progress progress = Progress::kFailed;
    try {
      progress = sending ? point_to_point_->progress_send(transfer) : point_to_point_->progress_receive(transfer);
    } catch (const Error& error) {
      fail_locally(error);
    } catch (const std::bad_alloc&) {
      fail_locally(out_of_memory());
    }
    if (progress == Progress::kDone && flush_transports()) return;
    if (progress == Progress::kFailed) {
      point_to_point_->withdraw(transfer);
      fail_transfer(transfer, sending);
    }
    if (progress_transports()) {
      waiter.reset();
    } else if (waiter.pause() && progress == Progress::kAgain) {
      if (peek(destroyed_) != 0) point_to_point_->withdraw(transfer);
      check_open(sending ? "send" : "recv");
      check_wait(transfer, sending, gone_since);
    }
  }
}

// A rank that has left sends nothing more: what it sent before has been taken, or its sends would not have returned.
void Session::check_wait(const Transfer& transfer, bool sending, std::optional<Clock::time_point>& gone_since) {
  const int peer = transfer.peer == kAnySource ? last_to_leave() : transfer.peer;
  if (peer == rank() || health_->left_after(peer) == Health::kStillHere) return;
  if (!gone_since) gone_since = Clock::now();
  if (Clock::now() - *gone_since < kLastWords) return;
  health_->fail(
      ErrorCode::kRemote,
      fmt::format("{} has left and will not {} this message", control_->describe(peer), sending ? "receive" : "send"),
      peer);
}

// A rank that is still here, else one that has left. This rank itself counts only when it is alone: whoever receives
// from any source mostly means others.
int Session::last_to_leave() const {
  int peer = rank();
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank()) continue;
    peer = r;
    if (health_->left_after(r) == Health::kStillHere) break;
  }
  return peer;
}

void Session::fail_transfer(const Transfer& transfer, bool sending) {
  const std::string text =
      fmt::format("{} {}×{} {} {} tag {} on \"{}\"", sending ? "send" : "recv", tutti::name(transfer.type),
                  transfer.count, sending ? "to" : "from",
                  transfer.peer == kAnySource ? "any" : std::to_string(transfer.peer), transfer.tag, name_);
  if (!health_->failed()) {
    const auto mismatch = point_to_point_->mismatch(transfer.peer);
    const std::string reason =
        fmt::format("{} sends {}×{} where {} receives {}×{} (tag {}): count and type must be equal",
                    control_->describe(transfer.peer), tutti::name(mismatch->type), mismatch->count,
                    control_->describe(rank()), tutti::name(transfer.type), transfer.count, transfer.tag);
    if (health_->fail(ErrorCode::kMismatch, reason, transfer.peer)) {
      control_->poison(ErrorCode::kMismatch, reason, transfer.peer);
    }
  }
  note(told_, 1);
  const Error reason = health_->reason();
  throw Error(reason.code(), fmt::format("{}, rank {}: {}", text, rank(), reason.what()), reason.peer());
}

}  // namespace tutti
