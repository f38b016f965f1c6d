#pragma once

#include <array>
#include <cstring>

#include "executor/call.h"
#include "executor/channel.h"
#include "reduce/reduce.h"
#include "transport/messages.h"

namespace tutti {

// The shortest all_reduce, written out: one_shot with a value that fits into lines, among ranks that share memory. It
// does what the interpreter would do for the same two steps, and when a peer is late it leaves the call at the step
// that it reached, for the interpreter to carry on. `trace(step)` is told each step as it is completed; a test compares
// them with the schedule (the release build passes nothing and pays nothing).
//
// REQUIRES: Call::straight_line, as HostExecutor::start() sets it. Same thread rules as HostExecutor::progress(); never
// sleeps, never allocates.
inline constexpr std::size_t kMostStraightLinePeers = 15;

template <class Trace>
void run_straight_line(Call& call, Channel& channel, Trace&& trace) {
  constexpr int kLooks = 2000;  // some microseconds
  Call::Cursor& cursor = call.cursors.front();
  const Peers peers = channel.peers(kEveryone);
  const std::size_t elements = call.binding.elements(0, 0);
  const std::size_t bytes = elements * call.element_bytes;

  for (Endpoint* endpoint : peers.endpoints) {
    if (!can_publish(*endpoint)) return;
  }
  const Endpoint::Sent sent{call.sequence, {channel.rings()[0].head(), channel.rings()[1].head()}};
  for (Endpoint* endpoint : peers.endpoints) {
    std::memcpy(next_line(*endpoint).payload, call.input, bytes);
    publish_line(*endpoint, {Way::kInline, 0, static_cast<std::uint32_t>(bytes)}, call.signature, sent);
  }
  trace(call.plan->step(0, cursor.step++));

  std::array<const void*, kMostStraightLinePeers + 1> sources;
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < peers.endpoints.size(); ++i) {
    if (i == peers.own_place) sources[count++] = call.input;
    const Line* line = arrived(*peers.endpoints[i]);
    for (int looks = 0; line == nullptr && looks < kLooks; ++looks) {
      relax_cpu();
      line = arrived(*peers.endpoints[i]);
    }
    if (line == nullptr || line->signature != call.signature) return;
    sources[count++] = line->payload;
  }
  if (peers.own_place == peers.endpoints.size()) sources[count++] = call.input;
  Reduction reduction = call.reduction;
  reduction.last = true;
  reduce(reduction, sources.data(), static_cast<int>(count), -1, call.output, nullptr, elements);
  for (Endpoint* endpoint : peers.endpoints) {
    take_message(*endpoint, *arrived(*endpoint));
    settle_credit(*endpoint);
  }
  trace(call.plan->step(0, cursor.step++));
}

}  // namespace tutti
