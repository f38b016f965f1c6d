#include "communicator/session.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "collectives/registry.h"
#include "communicator/setup.h"
#include "transport/shm/shm_endpoint.h"

namespace tutti {
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
      executor_(executor_rows().front().make(
          {channels_, transports_, *health_, progress_word(group_->layout, group_->segment.data(), group_->own_area)})),
      plans_(algorithms().size()),
      spin_(parts.spin),
      setup_seconds_(parts.setup_seconds),
      discovery_seconds_(parts.discovery_seconds) {
  answer_comparisons();
}

Session::~Session() {
  try {
    destroy();
  } catch (const std::exception&) {
    // Whoever wants to know calls destroy().
  }
}

void Session::check_open(const char* call) const {
  if (peek(destroyed_) == 0) return;
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{} on \"{}\": it was destroyed", call, name_));
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

// Something that this rank needs is not to be had: nobody can go on.
void Session::fail_locally(const Error& error) {
  health_->fail(error.code(), error.what(), rank());
  control_->poison(ErrorCode::kRemote, fmt::format("{}: {}", control_->describe(rank()), error.what()), rank());
}

Error Session::out_of_memory() {
  return {ErrorCode::kSystem, "the process is out of memory: free some, or raise its limit"};
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
  if (health_->used_after_fork()) return;  // whatever there is to end is the parent's
  const TurnOrder::Turn turn(order_, *health_, spin_);
  if (peek(destroyed_) != 0) return;
  publish(destroyed_, 1);  // observed through the turn, or by whoever calls where calling is an error
  if (!health_->failed()) check_left_overs();
  control_->leave(sequence_);
  if (health_->failed() && peek(told_) == 0) throw health_->reason();
}

}  // namespace tutti
