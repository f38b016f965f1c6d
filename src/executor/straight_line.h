#pragma once

#include <array>
#include <cstring>
#include <optional>

#include "executor/call.h"
#include "executor/channel.h"
#include "executor/neighbours.h"
#include "reduce/ready_reduction.h"
#include "transport/messages.h"

namespace tutti {

inline constexpr std::size_t kMostStraightLinePeers = 15;
// How often it looks for messages that are late: a few microseconds. Whoever is later than that may need this
// processor.
inline constexpr int kStraightLineLooks = 64;
// How often it gives the processor away for a neighbour: each of them comes to run once.
inline constexpr int kStraightLineYields = 4;
inline constexpr std::size_t kLongestStraightLine = 4096;  // bytes; beyond, the interpreter costs nothing in comparison

// Short calls among few ranks that share memory, without what the interpreter must be ready for: values are one chunk
// of the caller's buffers, all as long as the call's blocks, and travel in lines, in the places of their connection
// where one peer gets them, or in slots of the ring. It performs the plan's own steps (those that Plan::is_straight()
// admits) in their order, and leaves a call at the step at which it would have to wait for long, or finds what it does
// not expect: the interpreter carries it on, and knows what to say about it.
//
// `trace(step)` is told each step as it is completed; a test compares them with the schedule (the library passes
// nothing and pays nothing). `in_the_shadow()` runs once, when the call's first values are on their way and before this
// rank looks for the others': what it does costs least there.
//
// REQUIRES: Call::straight_line, as HostExecutor::start() sets it. Same thread rules as HostExecutor::progress(); never
// sleeps, never allocates.
template <class Trace, class Shadow>
class StraightLine {
 public:
  StraightLine(Call& call, Channel& channel, Trace& trace, Shadow& in_the_shadow, const Neighbours& neighbours)
      : call_(call),
        channel_(channel),
        trace_(trace),
        in_the_shadow_(in_the_shadow),
        neighbours_(neighbours),
        bytes_(call.straight.bytes) {}

  // Whether all steps were performed.
  bool run() {
    const std::span<const Step> steps = call_.straight.steps;
    std::size_t next = static_cast<std::size_t>(call_.cursors.front().step);
    for (; next < steps.size() && perform(steps[next]); ++next) trace_(steps[next]);
    call_.cursors.front().step = static_cast<int>(next);
    cast_shadow();
    return next == steps.size();
  }

 private:
  bool perform(const Step& step) {
    switch (step.kind) {
      case StepKind::kSend:
        return send(step);
      case StepKind::kReduce:
        return reduce(step);
      case StepKind::kRecv:
        return receive(step);
      default:
        copy(step, at(step.source_space, step.source));
        return true;
    }
  }

  bool send(const Step& step) {
    const Peers to = channel_.peers(step.to);
    for (Endpoint* endpoint : to.endpoints) {
      if (!can_publish(*endpoint)) return false;
    }
    const Endpoint::Sent sent{call_.sequence, {channel_.rings()[0].head(), channel_.rings()[1].head()}};
    const std::byte* value = at(step.source_space, step.source);
    const std::size_t bytes = bytes_of(step);
    Descriptor descriptor{Way::kInline, 0, static_cast<std::uint32_t>(bytes)};
    if (bytes <= Line::kPayload) {
      for (Endpoint* endpoint : to.endpoints) {
        copy_inline(next_line(*endpoint).payload, value, bytes);
        publish_line(*endpoint, descriptor, call_.signature, sent);
      }
    } else {
      const auto slot = find_slot(to, bytes);
      if (!slot) return false;
      std::memcpy(channel_.slots() + *slot, value, bytes);
      descriptor.way = Way::kSlot;
      descriptor.slot = static_cast<std::uint32_t>(*slot / Descriptor::kSlotUnit);
      const Offer none;
      for (Endpoint* endpoint : to.endpoints) {
        std::memcpy(next_line(*endpoint).payload, &none, sizeof(none));
        publish_line(*endpoint, descriptor, call_.signature, sent);
      }
    }
    sent_ = true;
    // For the next call, whose first store would wait for what this finds: here nobody does.
    for (Endpoint* endpoint : to.endpoints) {
      if (endpoint->sent - endpoint->acknowledged + 1 >= endpoint->window) refresh_acknowledged(*endpoint);
    }
    return true;
  }

  // Memory for a value on its way; nothing while readers still need it.
  std::optional<std::size_t> find_slot(const Peers& to, std::size_t bytes) {
    if (bytes <= kPlaceBytes && to.endpoints.size() == 1 && to.endpoints.front()->has_places)
      return next_place(*to.endpoints.front());
    auto users = channel_.endpoints();
    return channel_.rings()[call_.ring].take(bytes, users);
  }

  bool receive(const Step& step) {
    const Peers from = channel_.peers(step.from);
    if (neighbours_.share() && !let_neighbours_come(from)) return false;
    Endpoint& endpoint = *from.endpoints.front();
    const std::byte* value = await(endpoint, bytes_of(step));
    if (value == nullptr) return false;
    copy(step, value);
    take(endpoint);
    return true;
  }

  bool reduce(const Step& step) {
    const Peers from = channel_.peers(step.from);
    const bool contributes = step.source_space != Space::kNone;
    const std::size_t bytes = bytes_of(step);
    if (sent_) cast_shadow();
    if (neighbours_.share() && !let_neighbours_come(from)) return false;
    if (bytes > 0) look_up(static_cast<int>(from.endpoints.size()) + (contributes ? 1 : 0), step.last != 0);
    std::array<const void*, kMostStraightLinePeers + 1> sources;
    std::size_t count = 0;
    for (std::size_t i = 0; i < from.endpoints.size(); ++i) {
      if (contributes && i == from.own_place) sources[count++] = at(step.source_space, step.source);
      if ((sources[count++] = await(*from.endpoints[i], bytes)) == nullptr) return false;
    }
    if (contributes && from.own_place == from.endpoints.size()) sources[count++] = at(step.source_space, step.source);
    if (bytes > 0) {
      call_.straight.reduction.run(sources.data(), at(step.destination_space, step.destination),
                                   call_.straight.elements);
    }
    for (Endpoint* endpoint : from.endpoints) take(*endpoint);
    return true;
  }

  void look_up(int sources, bool last) {
    if (call_.straight.reduction.is_for(sources, last)) return;
    Reduction reduction = call_.reduction;
    reduction.last = last;
    call_.straight.reduction = ReadyReduction(reduction, sources);
  }

  // The value of the next message of a peer, where it lies; null when it is not there soon, or is not as it should be.
  const std::byte* await(const Endpoint& endpoint, std::size_t bytes) {
    if (sent_) cast_shadow();
    const Line* line = arrived(endpoint);
    for (int looks = 0; line == nullptr && looks < kStraightLineLooks; ++looks) {
      cast_shadow();
      relax_cpu();
      if (bytes > Line::kPayloadOfFirst && bytes <= Line::kPayload) fetch_second_line(endpoint);
      line = arrived(endpoint);
    }
    if (line == nullptr || read_once(line->signature) != call_.signature) return nullptr;
    const Descriptor descriptor = Descriptor::unpack(read_once(line->descriptor));
    if (descriptor.length != bytes) return nullptr;
    if (bytes <= Line::kPayload) return descriptor.way == Way::kInline ? line->payload : nullptr;
    if (descriptor.way != Way::kSlot || !lies_in_slots(endpoint, descriptor)) return nullptr;
    return endpoint.in_slots + descriptor.slot * Descriptor::kSlotUnit;
  }

  // Gives the processor away until the messages of all neighbours are there; false: they are late. The lines of others
  // are not looked at before: they are about to be written. (Inlined, it would make calls slower that never come here.)
  [[gnu::noinline]] bool let_neighbours_come(const Peers& from) {
    for (const Endpoint* endpoint : from.endpoints) {
      while (neighbours_.may_include(*endpoint) && arrived(*endpoint) == nullptr) {
        if (yields_++ == kStraightLineYields) return false;
        cast_shadow();
        neighbours_.let_run();
      }
    }
    return true;
  }

  static void take(Endpoint& endpoint) {
    take_message(endpoint, next_line_in(endpoint));
    settle_credit(endpoint);
  }

  void copy(const Step& step, const std::byte* value) const {
    std::byte* destination = at(step.destination_space, step.destination);
    const std::size_t bytes = bytes_of(step);
    if (destination == value) return;
    if (bytes <= Line::kPayload) {
      copy_inline(destination, value, bytes);
    } else {
      std::memcpy(destination, value, bytes);
    }
  }

  void cast_shadow() {
    if (!shadow_cast_) in_the_shadow_();
    shadow_cast_ = true;
  }

  std::size_t bytes_of(const Step& step) const { return step.count == 0 ? 0 : bytes_; }

  std::byte* at(Space space, std::size_t chunk) const {
    std::byte* base = space == Space::kInput ? const_cast<std::byte*>(call_.input) : call_.output;
    return base + chunk * bytes_;
  }

  Call& call_;
  Channel& channel_;
  Trace& trace_;
  Shadow& in_the_shadow_;
  const Neighbours neighbours_;
  const std::size_t bytes_;
  int yields_ = 0;
  bool sent_ = false;
  bool shadow_cast_ = false;
};

// Whether all steps were performed.
template <class Trace, class Shadow>
bool run_straight_line(Call& call, Channel& channel, Trace trace, Shadow in_the_shadow,
                       const Neighbours& neighbours = Neighbours(nullptr)) {
  return StraightLine<Trace, Shadow>(call, channel, trace, in_the_shadow, neighbours).run();
}

}  // namespace tutti
