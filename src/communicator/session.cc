#include "communicator/session.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "base/arithmetic.h"
#include "base/log.h"
#include "base/only_errors.h"
#include "communicator/setup.h"
#include "executor/waiter.h"
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
    : options_(std::move(parts.options)),
      config_(std::move(parts.config)),
      placement_(std::move(parts.placement)),
      layout_(parts.layout),
      health_(std::move(parts.health)),
      log_(std::move(parts.log)),
      group_(std::move(parts.group)),
      sleepers_(std::move(parts.sleepers)),
      peer_segments_(std::move(parts.peer_segments)),
      channels_(std::move(parts.channels)),
      point_to_point_(std::move(parts.point_to_point)),
      owned_transports_(std::move(parts.transports)),
      opening_(std::move(parts.opening)),
      control_(std::move(parts.control)),
      transports_(pointers_to(owned_transports_)),  // before the calls, which keep a view of it
      selector_(std::move(parts.selector)),
      distances_(std::move(parts.distances)),
      arrivals_(*group_, layout_.ranks),
      process_(layout_.ranks > 1 ? Process::get() : nullptr),
      report_(std::make_shared<CommunicatorReport>(CommunicatorReport::Parts{
          self(parts.name), [this] { return statistics(); }, config_.text(Setting::kDumpDir), process_.get()})),
      context_({self(parts.name), *report_, transports_, *sleepers_, parts.spin, parts.timeout,
                config_.duration(Setting::kStallWarning), config_.integer(Setting::kCheck) != 0,
                config_.duration(Setting::kSilence)}),
      collectives_(context_,
                   {layout_, parts.reproducible, *selector_, channels_,
                    progress_word(group_->layout, group_->segment.data(), group_->own_area),
                    long_call_word(group_->layout, group_->segment.data(), group_->own_area),
                    output_notice(group_->layout, group_->segment.data(), group_->own_area),
                    started_word(group_->layout, group_->segment.data(), group_->own_area),
                    parts.spin ? nullptr : &processor_word(group_->layout, group_->segment.data(), group_->own_area),
                    arrivals_}),
      transfers_(context_, *point_to_point_),
      ranks_per_thread_(parts.ranks_per_thread),
      setup_seconds_(parts.setup_seconds),
      discovery_seconds_(parts.discovery_seconds) {
  if (!process_) return;
  // What a transport or a call finds out here must reach the ranks that cannot find it out themselves.
  health_->spread_failures([control = control_.get(), rank = layout_.rank](const Error& error) {
    if (error.code() == ErrorCode::kMismatch || error.code() == ErrorCode::kTimeout) {
      return control->poison(error.code(), error.what(), error.peer());
    }
    control->poison(ErrorCode::kRemote, fmt::format("{}: {}", control->describe(rank), error.what()), error.peer());
  });
  try {
    process_->add_reporter(report_, static_cast<int>(config_.integer(Setting::kDumpSignal)));
    CommunicatorReport* const writer = config_.text(Setting::kDumpDir).empty() ? nullptr : report_.get();
    health_->when_failed([health = health_.get(), name = parts.name, rank = layout_.rank, writer] {
      // Every call tells why; only this line tells when this rank heard of it.
      log_info("communicator \"{}\": rank {} fails: {}", name, rank, health->reason().what());
      if (writer != nullptr) writer->write_failure_soon();
    });
    context_.stalls().start();
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    if (!health_->failed()) context_.fail_locally(error);
    silence();
    throw error;
  }
}

Self Session::self(const std::string& name) const {
  return {name, layout_.rank, layout_.ranks, *health_, *control_, *log_};
}

Session::~Session() {
  try {
    destroy();
  } catch (const std::exception&) {
    // Whoever wants to know calls destroy().
  }
  silence();
}

void Session::silence() {
  if (health_->used_after_fork()) return;  // nobody asks there, and a thread of the parent may hold the locks
  health_->spread_failures({});
  report_->close();  // it asks control_ who the members are
  control_.reset();
}

Heritage Session::heritage() const {
  return {*control_,       *health_,          config_,   group_->leader_of, group_->layout.large_ring_bytes,
          context_.spin(), ranks_per_thread_, distances_};
}

std::string Session::plan_text(Collective collective, std::size_t count, DataType type, ReduceOp op) const {
  const DefaultArithmetic arithmetic;
  const char* transport = layout_.hosts == 1 ? "shm" : layout_.hosts == layout_.ranks ? "tcp" : "shm+tcp";
  return fmt::format("{} over {}", collectives_.algorithm(collective, count, type, op), transport);
}

Statistics Session::statistics() const {
  const DefaultArithmetic arithmetic;
  Statistics statistics;
  collectives_.count_into(statistics);
  transfers_.count_into(statistics);
  statistics.waited_for = arrivals_.read();
  for (const auto& segments : peer_segments_) {
    if (segments != nullptr) statistics.messages_read_in_place += segments->reads();
  }
  statistics.setup_seconds = setup_seconds_;
  statistics.discovery_seconds = discovery_seconds_;
  return statistics;
}

void Session::abort(const std::string& reason) {
  if (health_->used_after_fork()) return;
  const std::lock_guard lock(leaving_);
  if (!left_) context_.abort(reason);
}

void Session::fail(const Error& error) {
  if (health_->used_after_fork()) return;
  const std::lock_guard lock(leaving_);
  if (!left_) context_.fail_locally(error);
}

void Session::destroy() {
  if (health_->used_after_fork()) return;  // whatever there is to end is the parent's
  std::uint64_t last_call = 0;
  {
    const TurnOrder::Turn turn(collectives_.order(), context_);
    if (context_.closed()) return;
    context_.close();
    last_call = turn.number();
  }
  // What is left on streams ends now: collectives that were issued later, sends and receives.
  context_.outstanding().close();
  Waiter waiter(false);
  while (!context_.outstanding().none()) waiter.pause();
  if (!health_->failed()) {
    collectives_.disagreements().check_left_overs(last_call);
  } else {
    try {
      collectives_.take_back_outputs();
    } catch (const std::exception& error) {
      log_warn("communicator \"{}\": outputs of calls that have failed may change while its peers live: {}", name(),
               error.what());
    }
  }
  {
    const std::lock_guard lock(leaving_);
    left_ = true;
  }
  for (Transport* transport : transports_) transport->finish();
  control_->leave(last_call);
  if (health_->failed()) report_->write_failure();
  report_->close();
  process_.reset();
  if (health_->failed() && !context_.told()) throw health_->reason();
}

}  // namespace tutti
