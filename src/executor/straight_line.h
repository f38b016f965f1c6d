#pragma once

#include <array>
#include <cstring>

#include "executor/call.h"
#include "executor/channel.h"
#include "reduce/reduce.h"
#include "transport/messages.h"

namespace tutti {

// The shortest all_reduces, written out: one_shot in one round, among few ranks that share memory. It does what the
// interpreter would do for the same two steps, and when a peer is late it leaves the call at the step that it reached,
// for the interpreter to carry on. `trace(step)` is told each step as it is completed; a test compares
// them with the schedule (the release build passes nothing and pays nothing). `in_the_shadow()` runs when the value is
// on its way and before this rank looks for the others': what it does costs least there.
//
// REQUIRES: Call::straight_line, as HostExecutor::start() sets it. Same thread rules as HostExecutor::progress(); never
// sleeps, never allocates.
inline constexpr std::size_t kMostStraightLinePeers = 15;
inline constexpr int kStraightLineSteps = 2;
inline constexpr std::size_t kLongestStraightLine = 4096;  // bytes; beyond, the interpreter costs nothing in comparison

template <class Trace, class Shadow>
void run_straight_line(Call& call, Channel& channel, Trace&& trace, Shadow&& in_the_shadow) {
  constexpr int kLooks = 64;  // a few microseconds: whoever is later than that may need this core
  Call::Cursor& cursor = call.cursors.front();
  const Peers peers = channel.peers(kEveryone);
  const std::size_t elements = call.binding.elements(0, 0);
  const std::size_t bytes = elements * call.element_bytes;

  for (Endpoint* endpoint : peers.endpoints) {
    if (!can_publish(*endpoint)) return;
  }
  const Endpoint::Sent sent{call.sequence, {channel.rings()[0].head(), channel.rings()[1].head()}};
  Descriptor descriptor{Way::kInline, 0, static_cast<std::uint32_t>(bytes)};
  const std::uint64_t inline_descriptor = descriptor.pack();
  const void* payload = call.input;
  std::size_t payload_bytes = bytes;
  const Offer no_offer;
  if (bytes > Line::kPayload) {
    auto endpoints = channel.endpoints();
    const auto slot = channel.rings()[call.ring].take(bytes, endpoints);
    if (!slot) return;
    std::memcpy(channel.slots() + *slot, call.input, bytes);
    descriptor.way = Way::kSlot;
    descriptor.slot = static_cast<std::uint32_t>(*slot / Descriptor::kSlotUnit);
    payload = &no_offer;
    payload_bytes = sizeof(no_offer);
  }
  for (Endpoint* endpoint : peers.endpoints) {
    std::memcpy(next_line(*endpoint).payload, payload, payload_bytes);
    publish_line(*endpoint, descriptor, call.signature, sent);
  }
  trace(call.plan->step(0, cursor.step++));
  in_the_shadow();

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
    if (bytes <= Line::kPayload) {
      if (line->descriptor != inline_descriptor) return;
      sources[count++] = line->payload;
      continue;
    }
    const Descriptor theirs = Descriptor::unpack(line->descriptor);
    if (theirs.way != Way::kSlot || theirs.length != bytes || !lies_in_slots(*peers.endpoints[i], theirs)) return;
    sources[count++] = peers.endpoints[i]->in_slots + theirs.slot * Descriptor::kSlotUnit;
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
