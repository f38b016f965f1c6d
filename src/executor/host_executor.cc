#include "executor/host_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>

#include "base/arithmetic.h"
#include "executor/output_notice.h"
#include "executor/step_execution.h"
#include "executor/straight_line.h"
#include "schedule/data_map.h"
#include "transport/messages.h"
#include "transport/shm/pages.h"
#include "transport/shm/registered_memory.h"
#include "transport/slot_ring.h"

namespace tutti {
namespace {

constexpr std::size_t kLineBytes = 64;                   // ranks write to cache lines of their own
constexpr std::size_t kShortestShared = Line::kPayload;  // shorter blocks travel in the line itself
// After so many calls of progress() that did no step, the credit that is still owed is told: it costs a store to a line
// that the peer reads only when it lacks credit.
constexpr std::uint32_t kIdleTurns = 16;

// Calls whose chunks are shorter do not care how far their peers are. Of the others, one looks at one peer whenever so
// many bytes have been called for, each call counting as so many more: one call in 32, every one that is long.
constexpr std::size_t kShortestWatched = 2048;
constexpr std::size_t kBetweenLooks = 4 << 20;
constexpr std::size_t kLeastOfACall = kBetweenLooks / 32;

// Calls with larger buffers take so long that it does not matter when they are entered in the log, nor whether they are
// chosen and bound anew.
constexpr std::size_t kLongestQuick = 128 * 1024;

// How many times a call's count the larger one of its buffers holds. Vector forms count that buffer.
std::size_t larger_side(const Call& call) {
  if (call.blocks != nullptr) return 1;
  switch (call.plan->algorithm().collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return 1;
    default:
      return static_cast<std::size_t>(call.plan->layout().ranks);
  }
}

// Where a buffer lies in memory that peers of the host can use where it is. `overwritten`: the call writes all of it.
std::optional<SharedHeap::Location> find_shared(const std::byte* buffer, std::size_t bytes, bool overwritten) {
  if (const auto location = SharedHeap::of_process().find(buffer, bytes)) return location;
  RegisteredMemory& registered = RegisteredMemory::of_process();
  const auto location = registered.find(buffer, bytes);
  if (!location || !registered.is_there(*location, buffer, bytes, overwritten)) return std::nullopt;
  return location;
}

// The same for a buffer with these blocks, if all of them lie in one segment. The start itself need not: the first
// block may begin far behind it.
std::optional<SharedHeap::Location> find_shared(const std::byte* base, const BlockList& list,
                                                std::size_t element_bytes) {
  std::size_t first = ~std::size_t{0};
  std::size_t end = 0;
  for (std::size_t block = 0; block < list.blocks; ++block) {
    if (list.counts[block] == 0) continue;
    first = std::min(first, list.offsets[block] * element_bytes);
    end = std::max(end, (list.offsets[block] + list.counts[block]) * element_bytes);
  }
  if (end == 0 || end - first < kShortestShared) return std::nullopt;
  // What lies between the blocks of an output is not the call's.
  auto location = find_shared(base + first, end - first, false);
  if (!location) return std::nullopt;
  location->offset -= first;
  if (location->missing > 0) location->missing += first;
  return location;
}

// Whether a call writes every byte of its output's first block. In place it only reads what this rank contributes, as
// the root of a broadcast does: other calls and other threads may read there meanwhile.
bool overwrites_first_block(const Call& call, const DataMap& data) {
  if (!call.in_place) return true;
  const Layout& layout = call.plan->layout();
  if (layout.ranks == 1) return false;
  return reduces(call.plan->algorithm().collective) || data.output_source(0) != layout.rank;
}

// The whole pages of an output of so many bytes: what peers may write to, if messages have room to say where it is. The
// caller's other data on the first and the last page would change its place with them (take_back_outputs()).
std::optional<SharedHeap::Location> pages_to_lend(SharedHeap::Location output, std::size_t bytes) {
  const std::uint64_t begin = round_up(output.anchor, page_size());
  const std::uint64_t end = round_down(std::min(output.end, output.offset + bytes), page_size());
  output.missing += begin - output.anchor;
  if (begin >= end || output.missing > std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
  if (end / Notes::kEndUnit > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  output.anchor = begin;
  output.end = end;
  return output;
}

}  // namespace

void HostExecutor::start(Call& call, std::size_t count, std::size_t chunk_bytes) {
  const Chunking& chunking = call.plan->chunking();
  const std::size_t granule = kLineBytes >> std::countr_zero(call.element_bytes);
  const std::size_t chunk_elements = std::max<std::size_t>(chunk_bytes / kLineBytes, 1) * granule;
  if (call.blocks == nullptr) {
    call.binding = Binding(count, chunking.chunks, chunk_elements, granule);
  } else {
    call.binding = Binding(*call.blocks, chunk_elements, granule);
  }
  call.shortest_read = call.plan->answers() ? shortest_answered_read_ : shortest_read_;
  call.output_bytes = count * call.element_bytes;
  call.larger_buffer_bytes = call.output_bytes * larger_side(call);
  call.longest_chunk = call.binding.elements(0, 0) * call.element_bytes;
  find_buffers(call);
  begin(call);
  const std::size_t longest = call.longest_chunk;
  const std::size_t needed = 2 * static_cast<std::size_t>(chunking.slot_chunks) * longest;
  Channel& first = *channels_.front();
  call.straight_line = call.plan->is_straight() && transports_.empty() && call.blocks == nullptr &&
                       call.binding.rounds() == 1 && longest <= kLongestStraightLine && !call.shared_input &&
                       !call.shared_output && first.endpoints().size() <= kMostStraightLinePeers + 1 &&
                       !first_changes(call.reduction.op);
  // In a straight line a call may use any buffers if none of them is long enough to be looked for.
  call.repeatable = transports_.empty() && call.blocks == nullptr && call.larger_buffer_bytes <= kLongestQuick &&
                    (!call.straight_line || longest < shortest_read_);
  if (call.straight_line && longest > Line::kPayload) first.reserve_places();
  if (call.straight_line) call.straight = {call.plan->stored(call.root), call.binding.elements(0, 0), longest, {}};
  // A short call is entered while it waits for the peers, where the time costs nothing.
  if (call.larger_buffer_bytes > kLongestQuick) enter_in_log(call, false);
  call.ring = longest <= kSmallChunk && needed <= first.rings()[0].size() ? 0 : 1;
  if (call.ring == 0) return;
  for (int channel = 0; channel < call.channels; ++channel) {
    channels_[static_cast<std::size_t>(channel)]->reserve_large_ring();
  }
}

Progress HostExecutor::repeat(Call& call) {
  call.entry = nullptr;
  if (!call.straight.steps.empty()) {
    begin(call);
    return go_straight(call) ? Progress::kDone : progress(call);
  }
  find_buffers(call);
  begin(call);
  return progress(call);
}

// Where the buffers of this very call lie.
void HostExecutor::find_buffers(Call& call) {
  call.shared_input.reset();
  call.shared_output.reset();
  if (call.blocks != nullptr) {
    call.shared_input = find_shared(call.input, call.blocks->input, call.element_bytes);
    call.shared_output = find_shared(call.output, call.blocks->output, call.element_bytes);
  } else if (call.output_bytes >= std::max(kShortestShared, call.shortest_read)) {
    // A buffer that does not matter on this rank may be anything.
    const Layout& layout = call.plan->layout();
    const DataMap data(call.plan->algorithm().collective, layout.ranks, 1, call.root);
    if (data.input_chunks(layout.rank) > 0) call.shared_input = find_shared(call.input, call.output_bytes, false);
    if (data.output_chunks(layout.rank) > 0) {
      call.shared_output = find_shared(call.output, call.output_bytes, overwrites_first_block(call, data));
    }
  }
  lent_.reset();
  call.lends_output = false;
  if (call.plan->writes() && call.shared_output) {
    if (const auto pages = pages_to_lend(*call.shared_output, call.output_bytes)) {
      call.lends_output = true;
      call.lent = *pages;
      lent_ = Lent{*pages, call.output + (pages->anchor - pages->offset), call.sequence};
    }
  }
  if (call.plan->writes_unasked() && notice_ != nullptr) {
    announce_output(*notice_, call, channels_.front()->endpoints());
  }
  call.looks_left = kLooksForOutputs;
}

void HostExecutor::begin(Call& call) {
  call.read_in_place = false;
  if (call.longest_chunk >= kShortestWatched) watch_distances(call, call.larger_buffer_bytes);
  // In place, what is overwritten has just been read.
  call.streams_output = !call.in_place && channels_.front()->exceeds_cache(2 * call.larger_buffer_bytes);
  idle_turns_ = 0;
  if (started_ != nullptr) note(*started_, call.sequence);  // seen by Arrivals at the other ranks of the host
  if (neighbours_.share()) neighbours_.tell();
  for (int channel = 0; channel < call.channels; ++channel) {
    call.cursors[static_cast<std::size_t>(channel)] = {static_cast<std::size_t>(channel), 0, 0, false};
  }
}

// Whether that was all. REQUIRES: call.straight_line when it was started.
bool HostExecutor::go_straight(Call& call) {
  call.straight_line = false;
  const bool done = run_straight_line(
      call, *channels_.front(), [](const Step&) {}, [&] { enter_in_log(call, true); }, neighbours_);
  if (done) {
    tell_progress(call.sequence);  // as finish() does, which has no transports and no buffers to wait for here
  } else {
    OperationLog::stamp(call.entry);
  }
  return done;
}

Progress HostExecutor::progress(Call& call) {
  if (health_.failed()) return Progress::kFailed;
  if (call.straight_line && go_straight(call)) return Progress::kDone;
  bool all_done = true;
  for (int channel = 0; channel < call.channels; ++channel) {
    switch (advance(call, channel)) {
      case Progress::kDone:
        break;
      case Progress::kAgain:
        all_done = false;
        break;
      case Progress::kFailed:
        return Progress::kFailed;
    }
  }
  if (all_done && finish(call)) return Progress::kDone;
  if (++idle_turns_ == kIdleTurns) {
    tell_owed_credit();
    OperationLog::stamp(call.entry);
  }
  return Progress::kAgain;
}

// A peer whose ring is full waits for the slowest reader of its oldest slot. A reader that holds back the credit for it
// may, in turn, wait for what that peer cannot send.
void HostExecutor::tell_owed_credit() {
  for (const auto& channel : channels_) {
    for (Endpoint& endpoint : channel->endpoints()) {
      if (endpoint.transport != nullptr || endpoint.in == nullptr) continue;
      if (endpoint.told != endpoint.received) tell_credit(endpoint);
      // Nothing more could ever be sent to this peer, and nobody would know why.
      refresh_acknowledged(endpoint);
      if (endpoint.acknowledged > endpoint.sent) {
        health_.fail(ErrorCode::kRemote,
                     fmt::format("rank {} acknowledged a message that it was never sent: its memory is damaged, or it "
                                 "runs another version of tutti; look at that rank first",
                                 endpoint.peer),
                     endpoint.peer);
      }
    }
  }
}

Progress HostExecutor::advance(Call& call, int channel) {
  Call::Cursor& cursor = call.cursors[static_cast<std::size_t>(channel)];
  const int steps = call.plan->steps(call.root);
  while (cursor.round < call.binding.rounds()) {
    while (cursor.step < steps) {
      const Step step = call.plan->step(call.root, cursor.step);
      StepExecution execution(call, *channels_[static_cast<std::size_t>(channel)], cursor, step,
                              call.channels == 1 && idle_turns_ == 0 ? looks_ : 0);
      const StepExecution::Outcome outcome = execution.run();
      enter_in_log(call, true);
      switch (outcome) {
        case StepExecution::Outcome::kDone:
          break;
        case StepExecution::Outcome::kBlocked:
          return Progress::kAgain;
        case StepExecution::Outcome::kMismatch:
          mismatch_ = {execution.peer(), execution.peer_signature()};
          return Progress::kFailed;
        case StepExecution::Outcome::kBadMessage:
          health_.fail(ErrorCode::kRemote,
                       fmt::format("a message of rank {} is shorter than its call says, or lies where nothing may be "
                                   "read: the ranks run different versions, or memory was overwritten",
                                   execution.peer()),
                       execution.peer());
          return Progress::kFailed;
      }
      idle_turns_ = 0;
      if (looked_at_ >= 0) look_at_distance(call.sequence);
      ++cursor.step;
      cursor.arrived = 0;
      cursor.posted = false;
    }
    cursor.step = 0;
    cursor.round += static_cast<std::size_t>(call.channels);
  }
  return Progress::kDone;
}

// Whether the call has ended for the caller: no peer reads its buffers and nothing that peers wait for is still here.
bool HostExecutor::finish(Call& call) {
  enter_in_log(call, true);  // of a call without steps
  // Everything that came was consumed: peers that lack credit may know now, also those on whom the waits below depend.
  if (peek(progress_) != call.sequence) tell_progress(call.sequence);
  for (Transport* transport : transports_) {
    if (!transport->written()) return false;
  }
  if (call.read_in_place && !buffers_released(call)) return false;
  lent_.reset();  // whoever writes to it has said so
  return true;
}

bool HostExecutor::buffers_released(const Call& call) {
  for (int channel = 0; channel < call.channels; ++channel) {
    for (Endpoint& endpoint : channels_[static_cast<std::size_t>(channel)]->endpoints()) {
      // What a transport reads in place it has read once it is written.
      if (endpoint.transport != nullptr || endpoint.last_read <= endpoint.acknowledged) continue;
      refresh_acknowledged(endpoint);
      if (endpoint.last_read > endpoint.acknowledged) return false;
    }
  }
  return true;
}

// Visits the peers whose message or room the call waits for now; `visit` returns whether it wants to see more.
template <class Visit>
void HostExecutor::visit_awaited(const Call& call, Visit visit) const {
  for (int c = 0; c < call.channels; ++c) {
    Channel& channel = *channels_[static_cast<std::size_t>(c)];
    const Call::Cursor& cursor = call.cursors[static_cast<std::size_t>(c)];
    if (cursor.round >= call.binding.rounds()) {
      for (const Endpoint& endpoint : channel.endpoints()) {
        if (endpoint.in != nullptr && endpoint.last_read > endpoint.acknowledged && !visit(endpoint)) return;
      }
      continue;
    }
    const Step step = call.plan->step(call.root, cursor.step);
    bool silent = false;
    if (receives(step)) {
      for (const Endpoint* endpoint : channel.peers(step.from).endpoints) {
        if (arrived(*endpoint) != nullptr) continue;
        silent = true;
        if (!visit(*endpoint)) return;
      }
    }
    if (silent || !sends(step)) continue;
    for (const Endpoint* endpoint : channel.peers(step.to).endpoints) {
      if (endpoint->acknowledged < endpoint->sent && !visit(*endpoint)) return;
    }
  }
}

int HostExecutor::first_awaited(const Call& call) const {
  int first = -1;
  visit_awaited(call, [&first](const Endpoint& endpoint) {
    first = endpoint.peer;
    return false;
  });
  return first;
}

void HostExecutor::watch_distances(const Call& call, std::size_t bytes) {
  const std::span<Endpoint> endpoints = channels_.front()->endpoints();
  if (watches_.empty()) {
    for (const Endpoint& endpoint : endpoints) watches_.emplace_back(endpoint.hop_ns);
    set_distance();
  }
  if (long_call_ != nullptr) note(*long_call_, call.sequence);  // looked at by look_at_distance() at the peers
  looked_at_ = -1;
  unwatched_ += bytes + kLeastOfACall;
  if (unwatched_ < kBetweenLooks) return;
  unwatched_ = 0;
  const std::size_t peer = looks_taken_++ % endpoints.size();
  if (endpoints[peer].transport == nullptr && endpoints[peer].long_call_in != nullptr) {
    looked_at_ = static_cast<int>(peer);
  }
}

// Times the load of a word that the peer wrote when it began this call, and that nobody has read since: it lies in the
// peer's cache, whatever has become of lines that it wrote before. If it has not begun the next step looks again.
void HostExecutor::look_at_distance(std::uint64_t sequence) {
  const auto peer = static_cast<std::size_t>(looked_at_);
  const Endpoint& endpoint = channels_.front()->endpoints()[peer];
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t begun = observe(*endpoint.long_call_in);  // noted by watch_distances() at the peer
  finish_loads();
  const DefaultArithmetic arithmetic;
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  if (begun != sequence) return;
  looked_at_ = -1;
  DistanceWatch& watch = watches_[peer];
  const bool far = watch.is_far();
  watch.note(time.count());
  if (watch.is_far() != far) set_distance();
}

void HostExecutor::set_distance() {
  const bool far = std::any_of(watches_.begin(), watches_.end(), [](const auto& watch) { return watch.is_far(); });
  for (const auto& channel : channels_) channel->set_distance(far);
}

HostExecutor::~HostExecutor() {
  for (const Lent& lent : held_) {
    // A peer that has never said so may still write: then nobody gets that memory again.
    if (peers_have_ended(lent.sequence)) SharedHeap::of_process().release(lent.pages);
  }
}

// Whether no peer of the host executes this call, or one before it, any more.
bool HostExecutor::peers_have_ended(std::uint64_t sequence) const {
  for (const Endpoint& endpoint : channels_.front()->endpoints()) {
    // Published by finish() or withdraw() at the peer.
    if (endpoint.progress_in != nullptr && observe(*endpoint.progress_in) < sequence) return false;
  }
  return true;
}

void HostExecutor::withdraw() {
  if (lent_) {
    SharedHeap::of_process().hold(lent_->pages);
    held_.push_back(*lent_);
    lent_.reset();
  }
  // The buffers are the caller's as soon as this returns. Observed by StepExecution::withdrawn().
  publish_before_reuse(progress_, kWithdrawn);
  for (const auto& channel : channels_) {
    for (Endpoint& endpoint : channel->endpoints()) {
      if (endpoint.transport != nullptr) endpoint.transport->withdraw(endpoint);
    }
  }
}

void HostExecutor::take_back_outputs() {
  for (const Lent& lent : held_) {
    if (peers_have_ended(lent.sequence)) continue;
    if (!SharedHeap::of_process().renew(lent.address, lent.pages)) {
      RegisteredMemory::of_process().renew(lent.address, lent.pages);
    }
  }
}

}  // namespace tutti
