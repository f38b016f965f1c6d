#include "communicator/collective_calls.h"

#include <fmt/format.h>

#include "collectives/registry.h"
#include "communicator/collective_operation.h"

namespace tutti {

CollectiveCalls::CollectiveCalls(CallContext& context, const Parts& parts)
    : context_(context),
      layout_(parts.layout),
      reproducible_(parts.reproducible),
      selector_(parts.selector),
      arrivals_(parts.arrivals),
      executor_(executor_rows().front().make({parts.channels, context.transports(), context.health(), parts.progress,
                                              &parts.started, &parts.long_call, &parts.notice, &context.log(),
                                              parts.processor, &context.sleepers()})),
      disagreements_(context, parts.channels, context.log()),
      plans_(algorithms().size()),
      order_(context.sleepers()) {}

std::uint64_t CollectiveCalls::run(const CollectiveArguments& arguments, std::chrono::milliseconds limit) {
  const bool in_place = check_arguments(arguments, context_.rank(), context_.ranks(), context_.name());
  if (context_.checks_memory()) check_memory(arguments, context_.rank(), context_.ranks(), context_.name());
  const std::uint64_t turn = order_.take();
  ShortCall* kept = order_.is_called(turn) ? find_short(arguments) : nullptr;
  if (kept != nullptr && repeat(*kept, arguments, in_place, turn)) return turn + 1;
  CollectiveOperation operation(*this, arguments, in_place, limit);
  operation.take_over(turn, kept != nullptr ? &kept->call : nullptr);
  if (const Progress progress = operation.progress(); progress != Progress::kDone) drive(operation, progress);
  return operation.sequence();
}

ShortCall* CollectiveCalls::find_short(const CollectiveArguments& arguments) {
  if (arguments.blocks != nullptr || context_.closed() || context_.health().failed()) return nullptr;
  return short_calls_.find(shape_of(arguments));
}

bool CollectiveCalls::repeat(ShortCall& kept, const CollectiveArguments& arguments, bool in_place, std::uint64_t turn) {
  Call& call = kept.call;
  call.input = static_cast<const std::byte*>(arguments.input);
  call.output = static_cast<std::byte*>(arguments.output);
  call.in_place = in_place;
  call.sequence = turn + 1;
  call.signature = context_.log().sign(kept.kinds, arguments.count, call.sequence);
  try {
    if (executor_->repeat(call) != Progress::kDone) return false;
  } catch (const std::bad_alloc&) {
    context_.fail_locally(CallContext::out_of_memory());
    return false;
  }
  OperationLog::end(call.entry, Phase::kDone, false);
  counters_[static_cast<std::size_t>(arguments.collective)].count_in_turn(kept.bytes);
  order_.pass(turn);
  return true;
}

std::unique_ptr<Operation> CollectiveCalls::prepare(const CollectiveArguments& arguments,
                                                    std::chrono::milliseconds limit) {
  context_.check_usable(tutti::name(arguments.collective));
  const bool in_place = check_arguments(arguments, context_.rank(), context_.ranks(), context_.name());
  if (context_.checks_memory()) check_memory(arguments, context_.rank(), context_.ranks(), context_.name());
  return std::make_unique<CollectiveOperation>(*this, arguments, in_place, limit);
}

const Plan& CollectiveCalls::plan_for(const Choice& choice) {
  if (choice.algorithm == Choice::kNone) {
    throw Error(
        ErrorCode::kInvalidSetting,
        fmt::format("the slot ring is too small for averages of f16 and fp8 between {} ranks, which are made of "
                    "all values at once: raise TUTTI_RING_BYTES",
                    layout_.ranks));
  }
  std::unique_ptr<Plan>& plan = plans_[static_cast<std::size_t>(choice.algorithm)];
  if (plan == nullptr) {
    plan = std::make_unique<Plan>(algorithms()[static_cast<std::size_t>(choice.algorithm)], layout_);
  }
  return *plan;
}

std::string_view CollectiveCalls::algorithm(Collective collective, std::size_t count, DataType type,
                                            ReduceOp op) const {
  check_size(collective, count, type, context_.ranks(), context_.name());
  const std::size_t bytes = count * element_size(type) * largest_blocks(collective, context_.ranks());
  const Choice& choice = choose(collective, bytes, op, type);
  return choice.algorithm == Choice::kNone ? "none" : algorithms()[choice.algorithm].name;
}

void CollectiveCalls::count_into(Statistics& statistics) const {
  for (int c = 0; c < kCollectives; ++c) {
    statistics.collectives[tutti::name(static_cast<Collective>(c))] = counters_[static_cast<std::size_t>(c)].read();
  }
}

}  // namespace tutti
