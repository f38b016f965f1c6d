#include "communicator/collective_calls.h"

#include "collectives/registry.h"
#include "communicator/collective_operation.h"

namespace tutti {

CollectiveCalls::CollectiveCalls(CallContext& context, const Parts& parts)
    : context_(context),
      layout_(parts.layout),
      reproducible_(parts.reproducible),
      selector_(parts.selector),
      arrivals_(parts.arrivals),
      executor_(executor_rows().front().make(
          {parts.channels, context.transports(), context.health(), parts.progress, &parts.started, &context.log()})),
      disagreements_(context, parts.channels, context.log()),
      plans_(algorithms().size()) {}

std::uint64_t CollectiveCalls::run(const CollectiveArguments& arguments, std::chrono::milliseconds limit) {
  const bool in_place = check_arguments(arguments, context_.rank(), context_.ranks(), context_.name());
  const std::uint64_t turn = order_.take();
  Call* call = order_.is_called(turn) ? begin_short(arguments, in_place, turn) : nullptr;
  if (call != nullptr && executor_->progress(*call) == Progress::kDone) {
    end_short(arguments, *call, turn);
    return turn + 1;
  }
  CollectiveOperation operation(*this, arguments, in_place, limit);
  operation.take_over(turn, call);
  if (const Progress progress = operation.progress(); progress != Progress::kDone) drive(operation, progress);
  return operation.sequence();
}

Call* CollectiveCalls::begin_short(const CollectiveArguments& arguments, bool in_place, std::uint64_t turn) {
  if (arguments.blocks != nullptr || context_.closed() || context_.health().failed()) return nullptr;
  const CallShape shape = shape_of(arguments);
  Call* call = short_calls_.find(shape);
  if (call == nullptr) return nullptr;
  call->input = static_cast<const std::byte*>(arguments.input);
  call->output = static_cast<std::byte*>(arguments.output);
  call->in_place = in_place;
  call->sequence = turn + 1;
  call->signature = context_.log().sign(shape, call->sequence);
  executor_->restart(*call);
  return call;
}

void CollectiveCalls::end_short(const CollectiveArguments& arguments, const Call& call, std::uint64_t turn) {
  OperationLog::end(call.entry, Phase::kDone, false);
  counters_[static_cast<std::size_t>(arguments.collective)].count_in_turn(size_of(arguments, context_.ranks()));
  order_.pass(turn);
}

std::unique_ptr<Operation> CollectiveCalls::prepare(const CollectiveArguments& arguments,
                                                    std::chrono::milliseconds limit) {
  context_.check_usable(tutti::name(arguments.collective));
  const bool in_place = check_arguments(arguments, context_.rank(), context_.ranks(), context_.name());
  return std::make_unique<CollectiveOperation>(*this, arguments, in_place, limit);
}

const Plan& CollectiveCalls::plan_for(const Choice& choice) {
  std::unique_ptr<Plan>& plan = plans_[static_cast<std::size_t>(choice.algorithm)];
  if (plan == nullptr) {
    plan = std::make_unique<Plan>(algorithms()[static_cast<std::size_t>(choice.algorithm)], layout_);
  }
  return *plan;
}

std::string_view CollectiveCalls::algorithm(Collective collective, std::size_t count, DataType type) const {
  check_size(collective, count, type, context_.ranks(), context_.name());
  const std::size_t bytes = count * element_size(type) * largest_blocks(collective, context_.ranks());
  return algorithms()[static_cast<std::size_t>(selector_.choose(collective, bytes).algorithm)].name;
}

void CollectiveCalls::count_into(Statistics& statistics) const {
  for (int c = 0; c < kCollectives; ++c) {
    statistics.collectives[tutti::name(static_cast<Collective>(c))] = counters_[static_cast<std::size_t>(c)].read();
  }
}

}  // namespace tutti
