#include "executor/step_execution.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/arithmetic.h"
#include "executor/output_notice.h"
#include "reduce/copy.h"
#include "transport/messages.h"
#include "transport/shm/peer_segments.h"

namespace tutti {
namespace {

// Messages shorter than this are copied even where they could be read in place over a transport: the copy costs less
// than waiting for the acknowledgement.
constexpr std::size_t kShortestTransportRead = 32 * 1024;

// Values shorter than this are always written to slots with ordinary stores: there is little to gain, and a store fence
// to pay.
constexpr std::size_t kShortestStreamed = 4096;

// After a message was used: what its way asks of the receiver beyond the usual.
void settle(Endpoint& endpoint) {
  const Endpoint::Incoming& message = endpoint.incoming;
  if (message.offers) {
    endpoint.segments->consider(read_once_as<Offer>(next_line_in(endpoint).payload + sizeof(Notes)));
  }
  if (message.way == Way::kRead) endpoint.segments->count_read();
  take_message(endpoint, message.credit);
}

}  // namespace

StepExecution::Outcome StepExecution::run() {
  if (step_.count > 0) first_elements_ = elements(0);
  bytes_ = first_elements_;
  for (std::uint32_t i = 1; i < step_.count; ++i) bytes_ += elements(i);
  bytes_ *= call_.element_bytes;
  if (call_.blocks != nullptr) {
    // The block has ended: neither end of its messages has more of them.
    if (bytes_ == 0 && cursor_.round > 0) return Outcome::kDone;
    if (call_.counts_signed) signature_ = with_count(call_.signature, block_elements(*call_.blocks, step_));
  }
  if (receives(step_)) {
    from_ = channel_.peers(step_.from);
    if (const Outcome outcome = check_messages(); outcome != Outcome::kDone) return outcome;
  }
  if (sends(step_)) {
    to_ = channel_.peers(step_.to);
    if (!find_room()) return Outcome::kBlocked;
  }
  compute();
  // That peer has failed, and this rank is about to hear why.
  if (reads_in_place_ && withdrawn()) return Outcome::kBlocked;
  for (Endpoint* endpoint : from_.endpoints) settle(*endpoint);
  if (sends(step_)) publish_value();
  for (Endpoint* endpoint : from_.endpoints) {
    // The sender's call waits until its buffer has been read. Most often a line has just said so.
    if (reads_in_place_ && endpoint->transport == nullptr && endpoint->told != endpoint->received) {
      tell_credit(*endpoint);
    } else {
      settle_credit(*endpoint);
    }
  }
  return Outcome::kDone;
}

StepExecution::Outcome StepExecution::check_messages() {
  const std::uint32_t count = static_cast<std::uint32_t>(from_.endpoints.size());
  for (; cursor_.arrived < count; ++cursor_.arrived) {
    Endpoint& endpoint = *from_.endpoints[cursor_.arrived];
    const Line* line = await(endpoint);
    const std::uint64_t signature = line == nullptr ? 0 : read_once(line->signature);
    if (line != nullptr && signature == signature_) continue;
    peer_ = endpoint.peer;
    if (line == nullptr) {
      if (endpoint.transport != nullptr) post_destination(endpoint);
      return Outcome::kBlocked;
    }
    peer_signature_ = signature;
    return Outcome::kMismatch;
  }
  for (std::uint32_t i = 0; i < step_.part; ++i) {
    part_offset_ += call_.binding.elements(step_.shape - step_.part + i, cursor_.round) * call_.element_bytes;
  }
  for (Endpoint* endpoint : from_.endpoints) {
    if (resolve(*endpoint)) {
      if (endpoint->incoming.way != Way::kRead) continue;
      reads_in_place_ = true;
      // For withdrawn(): the peer has written to that line when it began the call. It comes while this rank computes.
      if (endpoint->progress_in != nullptr) __builtin_prefetch(endpoint->progress_in);
      continue;
    }
    peer_ = endpoint->peer;
    return Outcome::kBadMessage;
  }
  return Outcome::kDone;
}

// The next message of a peer; null: it is not there soon.
const Line* StepExecution::await(const Endpoint& endpoint) const {
  const Line* line = arrived(endpoint);
  for (int looks = looks_; line == nullptr && looks > 0; --looks) {
    relax_cpu();
    line = arrived(endpoint);
  }
  return line;
}

// Whether a buffer in which values were read became its caller's again before they were read.
bool StepExecution::withdrawn() {
  for (const Endpoint* endpoint : from_.endpoints) {
    if (endpoint->incoming.way != Way::kRead) continue;
    if (observe_after_reads(*endpoint->progress_in) != kWithdrawn) continue;  // published by HostExecutor::withdraw()
    peer_ = endpoint->peer;
    return true;
  }
  return false;
}

// Finds out where the next message lies and what its sender says beside it; false: it is shorter than the step needs,
// or lies where nothing may be read. What a transport says it has checked; what a peer wrote into shared memory may be
// anything, and may change while it is looked at, if its memory is damaged: all that decides is loaded once, here.
bool StepExecution::resolve(Endpoint& endpoint) const {
  const Line& line = next_line_in(endpoint);
  const Descriptor descriptor = Descriptor::unpack(read_once(line.descriptor));
  Endpoint::Incoming& message = endpoint.incoming;
  message = {nullptr, read_once(line.credit), descriptor.way, false};
  if (part_offset_ + bytes_ > descriptor.length) return false;
  if (descriptor.way == Way::kInline) {
    message.value = line.payload;
    return descriptor.length <= Line::kPayload;
  }
  if (endpoint.segments != nullptr) {
    endpoint.notes = read_once_as<Notes>(line.payload);
    endpoint.notes_call = call_.sequence;
    message.offers = (endpoint.notes.flags & Notes::kOffers) != 0;
  }
  switch (descriptor.way) {
    case Way::kSlot:
      message.value = endpoint.in_slots + descriptor.slot * Descriptor::kSlotUnit;
      return lies_in_slots(endpoint, descriptor);
    case Way::kRead:
      if (endpoint.segments == nullptr) return false;
      message.value = endpoint.segments->resolve(endpoint.notes.value, descriptor.length);
      return message.value != nullptr;
    case Way::kWritten:
      // Only where this rank said where to.
      if (endpoint.transport != nullptr) return cursor_.posted;
      return call_.lends_output && step_.kind == StepKind::kRecv && step_.destination_space == Space::kOutput &&
             step_.count == 1 && step_.part == 0;
    case Way::kInline:
      break;
  }
  return false;
}

// A message that only has to be stored, in one piece, may be received where it belongs.
void StepExecution::post_destination(Endpoint& endpoint) {
  if (cursor_.posted || step_.kind != StepKind::kRecv || step_.count != 1 || step_.part != 0) return;
  if (bytes_ <= Line::kPayload || step_.first != 0 || step_.last != 0) return;
  endpoint.transport->post(endpoint, address(step_.destination_space, step_.destination),
                           static_cast<std::uint32_t>(bytes_), signature_);
  cursor_.posted = true;
}

bool StepExecution::find_room() {
  for (Endpoint* endpoint : to_.endpoints) {
    if (!can_publish(*endpoint)) return false;
  }
  sent_ = {call_.sequence, {channel_.rings()[0].head(), channel_.rings()[1].head()}};
  if (bytes_ <= Line::kPayload) return true;
  find_place();
  bool slot_needed = false;
  for (Endpoint* endpoint : to_.endpoints) {
    if (writes_unasked()) look_for_output(*endpoint);
    // Decided once: a segment that is mapped from now on is for the next message.
    endpoint->target = target_at(*endpoint);
    const Way way = way_to(*endpoint);
    slot_needed |= way == Way::kSlot;
    if (way != Way::kWritten) continue;
    if (!writes_in_place_) target_ = endpoint->target;
    writes_in_place_ = true;
  }
  if (writes_in_place_) stores_ = target_stores().kind();
  if (!slot_needed) return true;
  auto endpoints = channel_.endpoints();
  const auto slot = channel_.rings()[call_.ring].take(bytes_, endpoints);
  if (!slot) return false;
  slot_ = *slot;
  if (call_.ring != 0 && bytes_ >= kShortestStreamed) stores_ = channel_.slot_stores();
  return true;
}

// Whether the value is for outputs of peers that have sent nothing to say where they lie. Out of place this rank has
// its own output to write meanwhile.
bool StepExecution::writes_unasked() const {
  return step_.kind == StepKind::kSend && step_.writable != kWritableNever && call_.in_place &&
         bytes_ >= call_.shortest_read;
}

// A peer that begins when this rank does says so a moment later.
void StepExecution::look_for_output(Endpoint& endpoint) {
  while (!heard_of_output(endpoint, call_) && call_.looks_left > 0) {
    --call_.looks_left;
    relax_cpu();
  }
}

// Whether the operation's input or output map changes the value on its way.
bool StepExecution::maps_value() const {
  const ReduceOp op = call_.reduction.op;
  return (step_.first != 0 && first_changes(op)) || (step_.last != 0 && last_changes(op, call_.reduction.ranks));
}

// The value may be read where it lies if the generator's claim covers this call, no map changes it on its way out, and
// it is one piece.
void StepExecution::find_place() {
  const bool claimed = (step_.readable & (call_.in_place ? kReadableInPlace : kReadableOutOfPlace)) != 0;
  if (!claimed || step_.count != 1) return;
  if (stores(step_)) {
    set_place(step_.destination_space, step_.destination);
    return;
  }
  if (step_.kind == StepKind::kSend && !maps_value()) set_place(step_.source_space, step_.source);
}

// Scratch is private to this process: it is never read in place.
void StepExecution::set_place(Space space, std::uint32_t chunk) {
  if (space == Space::kScratch) return;
  const auto& location = space == Space::kInput ? call_.shared_input : call_.shared_output;
  place_ = address(space, chunk);
  buffer_ = space == Space::kInput ? call_.input : call_.output;
  shared_ = location ? &*location : nullptr;
}

Way StepExecution::way_to(Endpoint& endpoint) const {
  if (endpoint.target != nullptr) return Way::kWritten;
  if (place_ == nullptr) return Way::kSlot;
  if (endpoint.transport != nullptr) return bytes_ >= kShortestTransportRead ? Way::kRead : Way::kSlot;
  if (shared_ == nullptr || bytes_ < call_.shortest_read || !shared_->holds(place_in_buffer(), bytes_)) {
    return Way::kSlot;
  }
  return is_mapped(endpoint, shared_->segment) ? Way::kRead : Way::kSlot;
}

// Where the value belongs in the peer's output, if it may be written there: the generator's claim covers the peer's
// call, and the peer has said in this call where its output lies, in memory that is mapped here.
std::byte* StepExecution::target_at(const Endpoint& endpoint) const {
  if (step_.writable == kWritableNever || endpoint.notes_call != call_.sequence) return nullptr;
  if (step_.kind == StepKind::kSend && !writes_unasked()) return nullptr;
  const Notes& notes = endpoint.notes;
  if (notes.output_segment == 0 || bytes_ < call_.shortest_read) return nullptr;
  const auto mode = (notes.flags & Notes::kInPlace) != 0 ? kWritableInPlace : kWritableOutOfPlace;
  if ((step_.writable & mode) == 0) return nullptr;
  const std::uint64_t first =
      call_.binding.first(Space::kOutput, step_.destination, cursor_.round) * call_.element_bytes;
  const std::uint64_t offset = notes.output_offset + first;
  if (first < notes.output_missing) return nullptr;
  if (offset + bytes_ > notes.output_end * Notes::kEndUnit) return nullptr;
  return endpoint.segments->resolve({notes.output_segment, offset}, bytes_);
}

void StepExecution::compute() {
  std::byte* sent = nullptr;
  if (sends(step_)) {
    sent = bytes_ <= Line::kPayload ? inline_value_.data() : slot_ != kNoSlot ? channel_.slots() + slot_ : target_;
  }
  // What is written to peers is all that such a step does for long.
  const bool measured = writes_in_place_ && slot_ == kNoSlot && target_stores().wants_time(bytes_);
  const auto begin = measured ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  if (call_.streams_output && step_.destination_space == Space::kOutput && bytes_ >= kShortestStreamed) {
    own_stores_ = StoreKind::kStreaming;
  }
  std::size_t offset = 0;
  for (std::uint32_t i = 0; i < step_.count; ++i) {
    const std::size_t count = i == 0 ? first_elements_ : elements(i);
    compute_chunk(i, count, part_offset_ + offset, sent == nullptr ? nullptr : sent + offset);
    offset += count * call_.element_bytes;
  }
  if (writes_in_place_) write_targets();
  if (stores_ == StoreKind::kStreaming || own_stores_ == StoreKind::kStreaming) finish_streaming_stores();
  if (!measured) return;
  const DefaultArithmetic arithmetic;
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  target_stores().note(bytes_, time.count());
}

// The value lies in this rank's memory, and in a slot or the first target: the other targets get it from there.
void StepExecution::write_targets() {
  const std::byte* value =
      stores(step_) ? address(step_.destination_space, step_.destination) : address(step_.source_space, step_.source);
  for (const Endpoint* endpoint : to_.endpoints) {
    if (endpoint->target == nullptr) continue;
    if (endpoint->target != target_ || slot_ != kNoSlot) copy_bytes(endpoint->target, value, bytes_, stores_);
    endpoint->segments->count_write();
  }
}

void StepExecution::compute_chunk(std::uint32_t index, std::size_t elements, std::size_t message_offset,
                                  std::byte* sent) {
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
      sources[static_cast<std::size_t>(count++)] = from_.endpoints[i]->incoming.value + message_offset;
    }
    // Where only one destination is written past the caches, it is the last.
    void* last = sent != nullptr ? sent : destination;
    void* other = sent != nullptr ? destination : nullptr;
    StoreKind stores = sent != nullptr ? stores_ : own_stores_;
    StoreKind other_stores = own_stores_;
    if (other != nullptr && stores == StoreKind::kOrdinary) {
      std::swap(last, other);
      std::swap(stores, other_stores);
    }
    reduce(reduction, sources.data(), count, step_.first ? own : -1, other != nullptr ? other : last,
           other != nullptr ? last : nullptr, elements, stores, other_stores);
    return;
  }

  const std::byte* value = nullptr;
  if (receives(step_)) {
    value = from_.endpoints.front()->incoming.value;
    value = value == nullptr ? destination : value + message_offset;
  } else {
    value = address(step_.source_space, step_.source + index);
  }
  if (destination != nullptr) {
    // A value that is already where it belongs needs nothing but its map.
    if (destination != value || maps_value()) {
      map_elements(reduction, step_.first != 0, value, destination, elements,
                   sent == nullptr ? own_stores_ : StoreKind::kOrdinary);
    }
    if (sent != nullptr) copy_bytes(sent, destination, bytes, stores_);
  } else if (sent != nullptr) {
    map_elements(reduction, step_.first != 0, value, sent, elements, stores_);
  }
}

void StepExecution::publish_value() {
  const auto length = static_cast<std::uint32_t>(bytes_);
  for (Endpoint* endpoint : to_.endpoints) {
    std::byte* line = next_line(*endpoint).payload;
    if (bytes_ <= Line::kPayload) {
      std::memcpy(line, inline_value_.data(), bytes_);
      publish_line(*endpoint, {Way::kInline, 0, length}, signature_, sent_);
      continue;
    }
    const Way way = way_to(*endpoint);
    write_notes(*endpoint, way);
    if (way == Way::kRead) {
      call_.read_in_place = true;
      endpoint->last_read = endpoint->sent + 1;
    }
    const auto slot = static_cast<std::uint32_t>(way == Way::kSlot ? slot_ / Descriptor::kSlotUnit : 0);
    publish_line(*endpoint, {way, slot, length}, signature_, sent_);
  }
}

// What the next line says beside its value: where that lies, where this rank's output lies, and which segment the peer
// should map next.
void StepExecution::write_notes(Endpoint& endpoint, Way way) const {
  std::byte* payload = next_line(endpoint).payload;
  Notes notes;
  if (endpoint.transport != nullptr) {
    if (way == Way::kRead) notes.value = {Place::kOwnMemory, reinterpret_cast<std::uintptr_t>(place_)};
    std::memcpy(payload, &notes, sizeof(notes));
    return;
  }
  if (way == Way::kRead) {
    notes.value = {shared_->segment, shared_->offset + place_in_buffer()};
  }
  std::uint64_t offered =
      way == Way::kSlot && shared_ != nullptr && bytes_ >= call_.shortest_read ? shared_->segment : 0;
  // The ends of registered memory take slots though its segment is known.
  if (offered != 0 && shared_->registered && is_mapped(endpoint, offered)) offered = 0;
  if (call_.lends_output) {
    describe_output(call_, notes);
    if (offered == 0 && !is_mapped(endpoint, notes.output_segment)) offered = notes.output_segment;
  }
  if (offered != 0) {
    notes.flags |= Notes::kOffers;
    const Offer offer = SharedHeap::of_process().offer(offered);
    std::memcpy(payload + sizeof(notes), &offer, sizeof(offer));
  }
  std::memcpy(payload, &notes, sizeof(notes));
}

std::byte* StepExecution::address(Space space, std::uint32_t chunk) const {
  if (space == Space::kScratch) {
    const std::size_t chunks = static_cast<std::size_t>(call_.plan->chunking().scratch_chunks);
    return channel_.scratch(chunks * call_.binding.chunk_elements() * call_.element_bytes) +
           call_.binding.scratch_first(chunk) * call_.element_bytes;
  }
  std::byte* base = space == Space::kInput ? const_cast<std::byte*>(call_.input) : call_.output;
  return base + call_.binding.first(space, chunk, cursor_.round) * call_.element_bytes;
}

}  // namespace tutti
