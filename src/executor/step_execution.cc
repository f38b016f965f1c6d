#include "executor/step_execution.h"

#include <cstring>

#include "transport/messages.h"

namespace tutti {
namespace {

// Where the bytes of a message lie on this rank; null when they are already at their destination.
const std::byte* payload(const Endpoint& endpoint, const Line& line, const Descriptor& descriptor) {
  switch (descriptor.way) {
    case Way::kInline:
      return line.payload;
    case Way::kSlot:
      return endpoint.in_slots + descriptor.slot * Descriptor::kSlotUnit;
    case Way::kRead:
    case Way::kWritten:
      break;
  }
  return nullptr;
}

}  // namespace

StepExecution::Outcome StepExecution::run() {
  for (std::uint32_t i = 0; i < step_.count; ++i) bytes_ += chunk_bytes(i);
  if (receives(step_)) {
    from_ = channel_.peers(step_.from);
    if (const Outcome outcome = check_messages(); outcome != Outcome::kDone) return outcome;
  }
  if (sends(step_)) {
    to_ = channel_.peers(step_.to);
    if (!find_room()) return Outcome::kBlocked;
  }
  compute();
  for (Endpoint* endpoint : from_.endpoints) take_message(*endpoint, *arrived(*endpoint));
  if (sends(step_)) publish_value();
  for (Endpoint* endpoint : from_.endpoints) settle_credit(*endpoint);
  return Outcome::kDone;
}

StepExecution::Outcome StepExecution::check_messages() {
  const std::uint32_t count = static_cast<std::uint32_t>(from_.endpoints.size());
  for (; cursor_.arrived < count; ++cursor_.arrived) {
    const Endpoint& endpoint = *from_.endpoints[cursor_.arrived];
    const Line* line = arrived(endpoint);
    if (line != nullptr && line->signature == call_.signature) continue;
    peer_ = endpoint.peer;
    if (line == nullptr) return Outcome::kBlocked;
    peer_signature_ = line->signature;
    return Outcome::kMismatch;
  }
  for (std::uint32_t i = 0; i < step_.part; ++i) {
    part_offset_ += call_.binding.elements(step_.shape - step_.part + i, cursor_.round) * call_.element_bytes;
  }
  for (const Endpoint* endpoint : from_.endpoints) {
    const std::size_t length = Descriptor::unpack(arrived(*endpoint)->descriptor).length;
    if (part_offset_ + bytes_ <= length) continue;
    peer_ = endpoint->peer;
    return Outcome::kBadLength;
  }
  return Outcome::kDone;
}

bool StepExecution::find_room() {
  for (Endpoint* endpoint : to_.endpoints) {
    if (!can_publish(*endpoint)) return false;
  }
  sent_ = {call_.sequence, {channel_.rings()[0].head(), channel_.rings()[1].head()}};
  if (bytes_ <= Line::kPayload) return true;
  auto endpoints = channel_.endpoints();
  const auto slot = channel_.rings()[call_.ring].take(bytes_, endpoints);
  if (!slot) return false;
  slot_ = *slot;
  return true;
}

void StepExecution::compute() {
  std::byte* sent = nullptr;
  if (sends(step_)) sent = slot_ == kNoSlot ? inline_value_.data() : channel_.slots() + slot_;
  std::size_t offset = 0;
  for (std::uint32_t i = 0; i < step_.count; ++i) {
    compute_chunk(i, part_offset_ + offset, sent == nullptr ? nullptr : sent + offset);
    offset += chunk_bytes(i);
  }
}

void StepExecution::compute_chunk(std::uint32_t index, std::size_t message_offset, std::byte* sent) {
  const std::size_t elements = call_.binding.elements(step_.shape + index, cursor_.round);
  if (elements == 0) return;
  const std::size_t bytes = elements * call_.element_bytes;
  Reduction reduction = call_.reduction;
  reduction.last = step_.last != 0;
  std::byte* destination = stores(step_) ? address(step_.destination_space, step_.destination + index) : nullptr;

  if (step_.kind == StepKind::kReduce || step_.kind == StepKind::kReduceSend) {
    std::array<const void*, kMaxSources> sources;
    int count = 0;
    int own = -1;
    const bool has_source = step_.source_space != Space::kNone;
    for (std::uint32_t i = 0; i <= from_.endpoints.size(); ++i) {
      if (has_source && i == from_.own_place) {
        own = count;
        sources[static_cast<std::size_t>(count++)] = address(step_.source_space, step_.source + index);
      }
      if (i == from_.endpoints.size()) break;
      const Endpoint& endpoint = *from_.endpoints[i];
      const Line& line = *arrived(endpoint);
      sources[static_cast<std::size_t>(count++)] =
          payload(endpoint, line, Descriptor::unpack(line.descriptor)) + message_offset;
    }
    void* first = destination != nullptr ? destination : sent;
    reduce(reduction, sources.data(), count, step_.first ? own : -1, first, destination != nullptr ? sent : nullptr,
           elements);
    return;
  }

  const std::byte* value = nullptr;
  if (receives(step_)) {
    const Endpoint& endpoint = *from_.endpoints.front();
    const Line& line = *arrived(endpoint);
    value = payload(endpoint, line, Descriptor::unpack(line.descriptor));
    value = value == nullptr ? destination : value + message_offset;
  } else {
    value = address(step_.source_space, step_.source + index);
  }
  if (destination != nullptr && destination != value) {
    map_elements(reduction, step_.first != 0, value, destination, elements);
    if (sent != nullptr) std::memcpy(sent, destination, bytes);
  } else if (destination != nullptr) {
    if ((step_.first && first_changes(reduction.op)) || (step_.last && last_changes(reduction.op, reduction.ranks))) {
      map_elements(reduction, step_.first != 0, value, destination, elements);
    }
    if (sent != nullptr) std::memcpy(sent, destination, bytes);
  } else {
    map_elements(reduction, step_.first != 0, value, sent, elements);
  }
}

void StepExecution::publish_value() {
  Descriptor descriptor;
  descriptor.length = static_cast<std::uint32_t>(bytes_);
  if (slot_ != kNoSlot) {
    descriptor.way = Way::kSlot;
    descriptor.slot = static_cast<std::uint32_t>(slot_ / Descriptor::kSlotUnit);
  }
  for (Endpoint* endpoint : to_.endpoints) {
    if (slot_ == kNoSlot) std::memcpy(next_line(*endpoint).payload, inline_value_.data(), bytes_);
    publish_line(*endpoint, descriptor, call_.signature, sent_);
  }
}

std::byte* StepExecution::address(Space space, std::uint32_t chunk) const {
  if (space == Space::kScratch) {
    const std::size_t chunks = static_cast<std::size_t>(call_.plan->chunking().scratch_chunks);
    return channel_.scratch(chunks * call_.binding.chunk_elements() * call_.element_bytes) +
           call_.binding.scratch_first(chunk) * call_.element_bytes;
  }
  std::byte* base = space == Space::kInput ? const_cast<std::byte*>(call_.input) : call_.output;
  return base + call_.binding.extent(chunk, cursor_.round).first * call_.element_bytes;
}

std::size_t StepExecution::chunk_bytes(std::uint32_t index) const {
  return call_.binding.elements(step_.shape + index, cursor_.round) * call_.element_bytes;
}

}  // namespace tutti
