#include "schedule/step_rules.h"

#include <iterator>

#include "schedule/text.h"

namespace tutti {
namespace {

enum class Part { kMust, kMay, kMustNot };

struct KindRules {
  Part source, from, destination, to;
  bool one_message;
};

constexpr KindRules kRules[] = {
    {Part::kMust, Part::kMustNot, Part::kMust, Part::kMustNot, false},  // copy
    {Part::kMust, Part::kMustNot, Part::kMustNot, Part::kMust, false},  // send
    {Part::kMustNot, Part::kMust, Part::kMust, Part::kMustNot, true},   // recv
    {Part::kMustNot, Part::kMust, Part::kMay, Part::kMust, true},       // forward
    {Part::kMay, Part::kMust, Part::kMust, Part::kMustNot, false},      // reduce
    {Part::kMay, Part::kMust, Part::kMay, Part::kMust, false},          // reduce-send
};

bool sends_as_it_is(const Step& step) { return step.kind == StepKind::kSend && step.first == 0 && step.last == 0; }

std::string presence_fault(Part rule, bool present, bool empty, const char* what) {
  if (rule == Part::kMust && !present && !empty) return std::string("it has no ") + what;
  if (rule == Part::kMustNot && present) return std::string("its kind has no ") + what;
  return {};
}

int chunks_of(Space space, const StepLimits& limits) {
  switch (space) {
    case Space::kInput:
      return limits.input_chunks;
    case Space::kOutput:
      return limits.output_chunks;
    default:
      return limits.scratch_chunks;
  }
}

std::string range_fault(Space space, int first, const Step& step, const StepLimits& limits) {
  const int available = chunks_of(space, limits);
  if (first + step.count > available) {
    return text(space, first, step.count) + " is out of bounds: " + std::to_string(available) + " chunks there";
  }
  if (space != Space::kScratch && step.count > 0 && first % limits.chunks != step.shape % limits.chunks) {
    return text(space, first, step.count) + " is not as long as shape " + std::to_string(step.shape) +
           " says: they are different chunks of a block of " + std::to_string(limits.chunks);
  }
  return {};
}

}  // namespace

std::string step_fault(const Step& step, const StepLimits& limits, int froms, int tos) {
  if (static_cast<int>(step.kind) >= static_cast<int>(std::size(kRules))) return "its kind is unknown";
  const KindRules& rules = kRules[static_cast<int>(step.kind)];
  const bool has_source = step.source_space != Space::kNone;
  const bool empty = step.count == 0;

  std::string fault = presence_fault(rules.source, has_source, empty, "source");
  if (fault.empty()) fault = presence_fault(rules.from, receives(step), false, "peers to receive from");
  if (fault.empty()) fault = presence_fault(rules.destination, stores(step), empty, "destination");
  if (fault.empty()) fault = presence_fault(rules.to, sends(step), false, "peers to send to");
  if (!fault.empty()) return fault;

  if (rules.one_message && froms != 1) {
    return "it takes one message, but " + text(step.from) + " are " + std::to_string(froms) + " ranks";
  }
  if (!has_source && froms == 0 && !empty) return "it has neither a source nor a message";
  if (const int operands = froms + (has_source ? 1 : 0); operands > kMaxOperands && !empty) {
    return "it combines " + std::to_string(operands) + " operands; executors take up to " +
           std::to_string(kMaxOperands);
  }
  const bool in_buffers = step.source_space == Space::kInput || step.source_space == Space::kOutput ||
                          step.destination_space == Space::kOutput;
  if (is_vector(limits.collective) && (step.count != 1 || step.part != 0 || !in_buffers)) {
    return "blocks have sizes of their own: each value must be one block that is named by a source or destination";
  }
  if (step.first && !has_source) return "it applies the input map (first) without a source";
  if ((step.first || step.last) && !reduces(limits.collective)) {
    return std::string(name(limits.collective)) + " has no operation whose maps (first, last) it could apply";
  }
  if (has_source && froms > 0 && !reduces(limits.collective) && !empty) {
    return std::string(name(limits.collective)) + " has no operation to combine values with";
  }
  if (froms > 1 && !reduces(limits.collective) && !empty) {
    return std::string(name(limits.collective)) + " has no operation to combine the messages of several ranks with";
  }
  if (step.readable != kReadableNever && !sends(step)) return "it claims to be readable but sends nothing";
  if (step.readable != kReadableNever && step.kind != StepKind::kSend && !stores(step)) {
    return "it claims to be readable, but its value is stored nowhere";
  }
  if (step.writable != kWritableNever &&
      (!sends(step) || step.count != 1 || !(step.destination_space == Space::kOutput || sends_as_it_is(step)))) {
    return "it claims to be writable, but does not send what it stores at one chunk of the output, or one chunk as it "
           "is";
  }
  if (step.writable != kWritableNever && is_vector(limits.collective)) {
    return "it claims to be writable, but blocks of different sizes may lie elsewhere in the receiver's output";
  }
  if (step.part > step.shape) return "its shape is counted from behind its part: add the chunks of a block to it";
  if (step.destination_space == Space::kInput) return "it writes to the caller's input";

  if (has_source) fault = range_fault(step.source_space, step.source, step, limits);
  if (fault.empty() && stores(step)) {
    fault = range_fault(step.destination_space, step.destination, step, limits);
  }
  if (fault.empty() && tos > 0 && step.count > limits.slot_chunks) {
    fault =
        "it sends " + std::to_string(step.count) + " chunks, but slot_chunks is " + std::to_string(limits.slot_chunks);
  }
  return fault;
}

}  // namespace tutti
