#include "communicator/session.h"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/registry.h"
#include "communicator/setup.h"
#include "transport/messages.h"
#include "transport/shm/shm_endpoint.h"

namespace tutti {
namespace {

constexpr std::chrono::microseconds kCheckInterval{1000};
constexpr std::chrono::microseconds kCheckIntervalPerRank{50};
constexpr std::chrono::seconds kCompareAfter{1};
constexpr std::chrono::seconds kVerdictWait{5};
// A rank's last acknowledgements and its goodbye travel on different ways: the goodbye may be here first.
constexpr std::chrono::milliseconds kLastWords{200};

CallDescription describe_call(const CallShape& shape, std::uint64_t sequence) {
  CallDescription description;
  description.sequence = sequence;
  description.signature = signature_of(shape, sequence);
  const std::string text = describe(shape);
  std::memcpy(description.text, text.data(), std::min(text.size(), sizeof(description.text) - 1));
  return description;
}

}  // namespace

// Calls run in the order in which they were issued: each takes a number and waits until it is called.
class Session::Turn {
 public:
  explicit Turn(Session& session) : session_(session) {
    const std::uint64_t mine = take_number(session_.next_turn_);
    Waiter waiter({}, session_.spin_);
    while (observe(session_.turn_) != mine) waiter.pause();  // published by the destructor of the turn before
  }
  ~Turn() { publish(session_.turn_, peek(session_.turn_) + 1); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Session& session_;
};

namespace {

std::vector<Transport*> pointers_to(const std::vector<std::unique_ptr<Transport>>& transports) {
  std::vector<Transport*> pointers;
  for (const auto& transport : transports) pointers.push_back(transport.get());
  return pointers;
}

}  // namespace

Session::Session(Parts parts)
    : name_(std::move(parts.name)),
      placement_(std::move(parts.placement)),
      layout_(parts.layout),
      reproducible_(parts.reproducible),
      health_(std::move(parts.health)),
      log_(std::move(parts.log)),
      group_(std::move(parts.group)),
      peer_segments_(std::move(parts.peer_segments)),
      channels_(std::move(parts.channels)),
      point_to_point_(std::move(parts.point_to_point)),
      owned_transports_(std::move(parts.transports)),
      transports_(pointers_to(owned_transports_)),  // before the executor, which keeps a view of it
      selector_(std::move(parts.selector)),
      control_(std::move(parts.control)),
      executor_(channels_, transports_, *health_,
                progress_word(group_->layout, group_->segment.data(), group_->own_area)),
      plans_(algorithms().size()),
      spin_(parts.spin),
      setup_seconds_(parts.setup_seconds),
      discovery_seconds_(parts.discovery_seconds) {
  control_->set_describe_call([log = log_.get()](std::uint64_t sequence, CallDescription& out) {
    CallShape shape;
    if (!log->find(sequence, shape)) return false;
    out = describe_call(shape, sequence);
    return true;
  });
}

Session::~Session() {
  try {
    destroy();
  } catch (const Error&) {
    // Whoever wants to know calls destroy().
  }
}

void Session::run(const CollectiveArguments& arguments) {
  const bool in_place = check_arguments(arguments, rank(), ranks(), name_);
  const CallShape shape{arguments.collective, arguments.type, arguments.op.kind(),
                        static_cast<std::uint32_t>(arguments.root), arguments.count};
  const Turn turn(*this);
  check_open(tutti::name(arguments.collective));
  const std::uint64_t sequence = ++sequence_;
  if (health_->failed()) fail_call(shape, sequence);
  log_->record(sequence, shape);

  const std::size_t element_bytes = element_size(arguments.type);
  const std::size_t bytes = arguments.count * element_bytes * largest_blocks(arguments.collective, ranks());
  const Choice& choice = selector_->choose(arguments.collective, bytes);
  Call call;
  call.plan = &plan_for(choice);
  call.reduction = {arguments.type, arguments.op, ranks(), false, reproducible_};
  call.input = static_cast<const std::byte*>(arguments.input);
  call.output = static_cast<std::byte*>(arguments.output);
  call.element_bytes = element_bytes;
  call.sequence = sequence;
  call.signature = signature_of(shape, sequence);
  call.root = arguments.root;
  call.channels = choice.channels;
  call.in_place = in_place;
  try {
    executor_.start(call, arguments.count, choice.chunk_bytes);
  } catch (const Error& error) {
    fail_locally(error);
    fail_call(shape, sequence);
  }
  if (executor_.progress(call) != Progress::kDone) drive(call, shape);

  count_call(counters_[static_cast<std::size_t>(arguments.collective)], bytes);
}

void Session::check_open(const char* call) const {
  if (peek(destroyed_) == 0) return;
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{} on \"{}\": it was destroyed before", call, name_));
}

void Session::drive(Call& call, const CallShape& shape) {
  Waiter waiter(transports_, spin_);
  // The checks look at every rank: the more there are, the less often.
  const auto check_interval = kCheckInterval + kCheckIntervalPerRank * ranks();
  Clock::duration next_check = check_interval;
  bool compared = false;
  while (true) {
    switch (executor_.progress(call)) {
      case Progress::kDone:
        return;
      case Progress::kFailed:
        if (const auto& mismatch = executor_.mismatch(); !health_->failed() && mismatch.peer >= 0) {
          report_mismatch(shape, call.sequence, mismatch.signature, mismatch.peer);
        }
        executor_.withdraw();
        fail_call(shape, call.sequence);
      case Progress::kAgain:
        break;
    }
    const bool advanced = executor_.advanced();
    if (progress_transports() || advanced) {
      waiter.reset();
      next_check = check_interval;
    } else if (waiter.pause() && waiter.waited() >= next_check) {
      check_wait(call, shape, waiter.waited(), compared);
      next_check = waiter.waited() + check_interval;
    }
  }
}

void Session::count_call(Counter& counter, std::size_t bytes) {
  add(counter.calls, 1);
  add(counter.bytes, bytes);
}

bool Session::flush_transports() {
  bool flushed = true;
  for (Transport* transport : transports_) flushed &= transport->flush();
  return flushed;
}

bool Session::progress_transports() {
  bool moved = false;
  for (Transport* transport : transports_) moved |= transport->progress();
  return moved;
}

void Session::check_wait(Call& call, const CallShape& shape, Clock::duration waited, bool& compared) {
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank() || health_->left_after(peer) >= call.sequence) continue;
    // What it sent before it left may only just have arrived.
    progress_transports();
    if (executor_.progress(call) != Progress::kAgain) return;
    health_->fail(ErrorCode::kRemote,
                  fmt::format("{} left after call #{}, and this call needs it: all ranks must make the same calls",
                              control_->describe(peer), health_->left_after(peer)),
                  peer);
    return;
  }
  check_unexpected_messages(shape, call.sequence, call.signature);
  if (!compared && waited > kCompareAfter) {
    control_->compare_call(describe_call(shape, call.sequence));
    compared = true;
  }
}

// Ranks that disagree on a call may each wait for somebody who never writes to them. But whoever does write can be
// seen.
void Session::check_unexpected_messages(const CallShape& shape, std::uint64_t sequence, std::uint64_t signature) {
  for (const auto& channel : channels_) {
    for (const Endpoint& endpoint : channel->endpoints()) {
      if (endpoint.in == nullptr) continue;
      const Line* line = arrived(endpoint);
      if (line == nullptr || line->signature == signature) continue;
      if (sequence_near(line->signature, sequence) > sequence) continue;
      report_mismatch(shape, sequence, line->signature, endpoint.peer);
      return;
    }
  }
}

void Session::report_mismatch(const CallShape& shape, std::uint64_t sequence, std::uint64_t other_signature, int peer) {
  // The message may be left over from an earlier call in which nobody here waited for it.
  CallShape suspect = shape;
  std::uint64_t suspect_sequence = std::min(sequence_near(other_signature, sequence), sequence);
  if (suspect_sequence == sequence || !log_->find(suspect_sequence, suspect)) {
    suspect_sequence = sequence;
    suspect = shape;
  }
  control_->compare_call(describe_call(suspect, suspect_sequence));
  const Clock::time_point asked = Clock::now();
  const Deadline deadline = asked + kVerdictWait;
  Waiter waiter({}, false);
  while (!health_->failed() && Clock::now() < deadline) {
    if (health_->left_after(peer) != Health::kStillHere && Clock::now() > asked + kLastWords) break;
    waiter.pause();
  }
  const std::string reason = fmt::format(
      "{} sent a message of another call than #{} {}: all ranks must make the same calls with the same "
      "count, type, operation and root",
      control_->describe(peer), suspect_sequence, describe(suspect));
  if (health_->fail(ErrorCode::kMismatch, reason, peer)) control_->poison(ErrorCode::kMismatch, reason, peer);
}

// Something that this rank needs is not to be had: nobody can go on.
void Session::fail_locally(const Error& error) {
  health_->fail(error.code(), error.what(), rank());
  control_->poison(ErrorCode::kRemote, fmt::format("{}: {}", control_->describe(rank()), error.what()), rank());
}

void Session::fail_call(const CallShape& shape, std::uint64_t sequence) {
  note(told_, 1);
  const Error reason = health_->reason();
  throw Error(reason.code(),
              fmt::format("{} #{} of \"{}\" on rank {}: {}", describe(shape), sequence, name_, rank(), reason.what()),
              reason.peer());
}

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
    }
    if (progress == Progress::kDone && flush_transports()) return;
    if (progress == Progress::kFailed) {
      point_to_point_->withdraw(transfer);
      fail_transfer(transfer, sending);
    }
    if (progress_transports()) {
      waiter.reset();
    } else if (waiter.pause() && progress == Progress::kAgain) {
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

const Plan& Session::plan_for(const Choice& choice) {
  std::unique_ptr<Plan>& plan = plans_[static_cast<std::size_t>(choice.algorithm)];
  if (plan == nullptr) {
    plan = std::make_unique<Plan>(algorithms()[static_cast<std::size_t>(choice.algorithm)], layout_);
  }
  return *plan;
}

std::string Session::plan_text(Collective collective, std::size_t count, DataType type) const {
  check_size(collective, count, type, ranks(), name_);
  const Choice& choice =
      selector_->choose(collective, count * element_size(type) * largest_blocks(collective, ranks()));
  const char* transport = layout_.hosts == 1 ? "shm" : layout_.hosts == layout_.ranks ? "tcp" : "shm+tcp";
  return fmt::format("{} over {}", algorithms()[static_cast<std::size_t>(choice.algorithm)].name, transport);
}

Statistics Session::statistics() const {
  Statistics statistics;
  for (int c = 0; c < kCollectives; ++c) {
    const Counter& counter = counters_[static_cast<std::size_t>(c)];
    statistics.collectives[tutti::name(static_cast<Collective>(c))] = {peek(counter.calls), peek(counter.bytes)};
  }
  statistics.collectives["send"] = {peek(sends_.calls), peek(sends_.bytes)};
  statistics.collectives["recv"] = {peek(receives_.calls), peek(receives_.bytes)};
  for (const auto& segments : peer_segments_) {
    if (segments != nullptr) statistics.messages_read_in_place += segments->reads();
  }
  statistics.setup_seconds = setup_seconds_;
  statistics.discovery_seconds = discovery_seconds_;
  return statistics;
}

void Session::destroy() {
  const Turn turn(*this);
  if (peek(destroyed_) != 0) return;
  publish(destroyed_, 1);  // observed through the turn, or by whoever calls where calling is an error
  if (!health_->failed()) check_left_overs();
  control_->leave(sequence_);
  if (health_->failed() && peek(told_) == 0) throw health_->reason();
}

// Where a call had nothing to wait for (two ranks that each believe they are the root), a message of it may still lie
// here.
void Session::check_left_overs() {
  CallShape last;
  if (sequence_ == 0 || !log_->find(sequence_, last)) return;
  progress_transports();
  check_unexpected_messages(last, sequence_, 0);
}

}  // namespace tutti
