#pragma once

#include "schedule/step.h"

// How generators spell their steps. Host and device; nothing here waits, allocates or fails.
//
// A step that names input or output is as long as the chunks it names there; one between scratch and peers takes the
// length of the first chunks, or of those given by shaped().
namespace tutti {

// The first chunk of a value in one of the three spaces, or nowhere.
struct Operand {
  Space space = Space::kNone;
  int chunk = 0;
};
TUTTI_HOST_DEVICE constexpr Operand input(int chunk) { return {Space::kInput, chunk}; }
TUTTI_HOST_DEVICE constexpr Operand output(int chunk) { return {Space::kOutput, chunk}; }
TUTTI_HOST_DEVICE constexpr Operand scratch(int chunk) { return {Space::kScratch, chunk}; }
inline constexpr Operand kNowhere{};

TUTTI_HOST_DEVICE constexpr PeerSet only(int rank) { return static_cast<PeerSet>(rank); }

TUTTI_HOST_DEVICE constexpr Step make_step(StepKind kind, Operand source, PeerSet from, Operand destination, PeerSet to,
                                           int count) {
  Step step;
  step.kind = kind;
  step.source_space = source.space;
  step.source = static_cast<std::uint16_t>(source.chunk);
  step.destination_space = destination.space;
  step.destination = static_cast<std::uint16_t>(destination.chunk);
  step.from = from;
  step.to = to;
  step.count = static_cast<std::uint16_t>(count);
  if (source.space == Space::kInput || source.space == Space::kOutput) {
    step.shape = step.source;
  } else if (destination.space == Space::kInput || destination.space == Space::kOutput) {
    step.shape = step.destination;
  }
  return step;
}

TUTTI_HOST_DEVICE constexpr Step copy(Operand source, Operand destination, int count = 1) {
  return make_step(StepKind::kCopy, source, kNobody, destination, kNobody, count);
}
TUTTI_HOST_DEVICE constexpr Step send(Operand source, PeerSet to, int count = 1) {
  return make_step(StepKind::kSend, source, kNobody, kNowhere, to, count);
}
TUTTI_HOST_DEVICE constexpr Step receive(PeerSet from, Operand destination, int count = 1) {
  return make_step(StepKind::kRecv, kNowhere, from, destination, kNobody, count);
}
TUTTI_HOST_DEVICE constexpr Step forward(PeerSet from, Operand destination, PeerSet to, int count = 1) {
  return make_step(StepKind::kForward, kNowhere, from, destination, to, count);
}
TUTTI_HOST_DEVICE constexpr Step reduce(Operand source, PeerSet from, Operand destination, int count = 1) {
  return make_step(StepKind::kReduce, source, from, destination, kNobody, count);
}
TUTTI_HOST_DEVICE constexpr Step reduce_send(Operand source, PeerSet from, Operand destination, PeerSet to,
                                             int count = 1) {
  return make_step(StepKind::kReduceSend, source, from, destination, to, count);
}

// The source is a raw contribution: the op's input map applies to it.
TUTTI_HOST_DEVICE constexpr Step contributing(Step step, bool first = true) {
  step.first = first;
  return step;
}
// The value is a result: the op's output map applies to it.
TUTTI_HOST_DEVICE constexpr Step finishing(Step step, bool last = true) {
  step.last = last;
  return step;
}
TUTTI_HOST_DEVICE constexpr Step readable(Step step, Readable when = kReadableAlways) {
  step.readable = when & 3;
  return step;
}
// The receivers store the value at the same chunk of their output.
TUTTI_HOST_DEVICE constexpr Step writable(Step step, Writable when = kWritableAlways) {
  step.writable = when & 3;
  return step;
}
// … of a send: at this one.
TUTTI_HOST_DEVICE constexpr Step writable_at(Step step, int chunk) {
  step.destination = static_cast<std::uint16_t>(chunk);
  return writable(step);
}
TUTTI_HOST_DEVICE constexpr Step shaped(Step step, int chunk) {
  step.shape = static_cast<std::uint16_t>(chunk);
  return step;
}

// The only step of a single rank.
TUTTI_HOST_DEVICE constexpr Step alone(bool reducing) {
  Step step = copy(input(0), output(0));
  step.first = reducing;
  step.last = reducing;
  return step;
}

// (a + b) mod n for a, b in [0, n).
TUTTI_HOST_DEVICE constexpr int wrapped(int sum, int n) { return sum >= n ? sum - n : sum; }

}  // namespace tutti
