#include "support/fault_transport.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

using Break = FaultPlan::Break;
using Bug = FaultPlan::Bug;

// Bytes or credit on their way from one rank to another.
struct Frame {
  std::uint64_t number = 0;  // of the message; 0: credit alone
  std::uint64_t signature = 0;
  std::uint64_t credit = 0;
  std::size_t length = 0;
  std::vector<std::byte> bytes;  // as many as the sender has handed over
  int delay = 0;                 // turns of the receiver
  bool opened = false;           // its header was read
  std::size_t placed = 0;

  bool complete() const { return bytes.size() == length; }
};

}  // namespace

// A rank's end of the two connections that it shares with a peer on a channel.
struct FaultNetwork::End {
  End(int own, int other, int number, std::uint32_t lines_each_way, std::size_t longest)
      : rank(own),
        peer(other),
        channel(number),
        window(lines_each_way),
        slot_bytes((longest + Descriptor::kSlotUnit - 1) / Descriptor::kSlotUnit * Descriptor::kSlotUnit),
        lines(std::make_unique<Line[]>(2 * std::size_t{window})),
        words(std::make_unique<PaddedWord[]>(3)),
        slots(std::make_unique_for_overwrite<std::byte[]>(window * slot_bytes)) {}

  std::size_t index(std::uint64_t number) const { return number & (window - 1); }
  // Where a message lies that nobody posted a destination for.
  std::byte* own_buffer(const Frame& frame) {
    if (frame.length <= Line::kPayload) return lines[window + index(frame.number)].payload;
    return slots.get() + index(frame.number) * slot_bytes;
  }
  // Where the sender has the bytes of its message.
  const std::byte* source(std::uint64_t number) const {
    const Line& line = lines[index(number)];
    const Descriptor descriptor = Descriptor::unpack(line.descriptor);
    if (descriptor.way == Way::kSlot) return out_slots + std::size_t{descriptor.slot} * Descriptor::kSlotUnit;
    if (descriptor.way == Way::kInline) return line.payload;
    Place place;
    std::memcpy(&place, line.payload, sizeof place);
    assert(descriptor.way == Way::kRead && place.segment == Place::kOwnMemory);
    return reinterpret_cast<const std::byte*>(place.offset);
  }

  const int rank;
  const int peer;
  const int channel;
  const std::uint32_t window;
  const std::size_t slot_bytes;
  std::unique_ptr<Line[]> lines;  // outgoing, then incoming
  std::unique_ptr<PaddedWord[]> words;
  std::unique_ptr<std::byte[]> slots;

  const std::byte* out_slots = nullptr;
  std::uint64_t published = 0;  // by the endpoint
  std::uint64_t begun = 0;      // the last frame of the wire is its message, perhaps not whole
  std::deque<Frame> wire;       // to the peer
  std::uint64_t acknowledged = 0;

  std::uint64_t opened = 0;    // number of the last message whose header came
  std::uint64_t arrived = 0;   // published in its line
  std::uint64_t consumed = 0;  // by the endpoint
  std::uint64_t told = 0;      // credit handed over
  std::optional<int> hold;     // turns for which credit still waits for a message
  std::uint64_t lost_credit = 0;

  struct Posted {
    std::uint64_t number = 0;
    std::byte* destination = nullptr;
    std::size_t length = 0;
    std::uint64_t signature = 0;
  } posted;
  std::byte* destination = nullptr;  // of the frame that is being taken in
  bool in_posted_buffer = false;

  bool has_unwritten() const { return begun < published || (!wire.empty() && !wire.back().complete()); }
};

FaultNetwork::FaultNetwork(int ranks, std::uint32_t window, std::size_t longest_message)
    : window_(window), longest_message_(longest_message) {
  ranks_.reserve(static_cast<std::size_t>(ranks));
  set_plan({});
}

FaultNetwork::~FaultNetwork() = default;

FaultTransport& FaultNetwork::add_rank(Health& health) {
  ranks_.push_back(std::make_unique<FaultTransport>(*this, static_cast<int>(ranks_.size()), health));
  return *ranks_.back();
}

void FaultNetwork::set_plan(const FaultPlan& plan) {
  plan_ = plan;
  random_.seed(plan.seed);
  broken_ = false;
  bug_struck_ = false;
  progressed_ = 0;
}

int FaultNetwork::draw(int longest) {
  return longest == 0 ? 0 : static_cast<int>(random_() % (static_cast<std::uint64_t>(longest) + 1));
}

bool FaultNetwork::silent(int from, int to) const {
  if (!broken_ || plan_.breaks == Break::kKilled) return false;
  return (from == plan_.victim && to == plan_.other) || (from == plan_.other && to == plan_.victim);
}

void FaultNetwork::count_message(int from, int to) {
  if (broken_ || (plan_.breaks != Break::kSilent && plan_.breaks != Break::kLost)) return;
  if ((from != plan_.victim || to != plan_.other) && (from != plan_.other || to != plan_.victim)) return;
  if (progressed_++ >= plan_.breaks_at) break_now();
}

void FaultNetwork::count_turn(int rank) {
  if (broken_ || plan_.breaks != Break::kKilled || rank != plan_.victim) return;
  if (progressed_++ >= plan_.breaks_at) break_now();
}

void FaultNetwork::break_now() {
  broken_ = true;
  const std::string victim = "rank " + std::to_string(plan_.victim);
  if (plan_.breaks == Break::kSilent) return;
  if (plan_.breaks == Break::kLost) {
    tell("the connection between " + victim + " and rank " + std::to_string(plan_.other) + " was lost", plan_.victim);
    ranks_[static_cast<std::size_t>(plan_.victim)]->news_.peer = plan_.other;
    return;
  }
  // What the system had of it may be lost, from the end on and in the middle of a message.
  for (auto& [key, end] : ranks_[static_cast<std::size_t>(plan_.victim)]->ends_) {
    std::deque<Frame>& wire = end->wire;
    if (wire.empty()) continue;
    const std::size_t least = wire.front().opened ? 1 : 0;
    const auto keep = std::max(least, static_cast<std::size_t>(draw(static_cast<int>(wire.size()))));
    while (wire.size() > keep) wire.pop_back();
    if (keep > 0 && draw(1) == 1) wire.back().bytes.resize(wire.back().placed);
  }
  tell(victim + " died", plan_.victim);
}

void FaultNetwork::tell(std::string message, int peer) {
  for (const auto& rank : ranks_) {
    if (killed(rank->rank_)) continue;
    if (plan_.bug == Bug::kForgetsToFail && rank->rank_ == (plan_.victim + 1) % static_cast<int>(ranks_.size())) {
      bug_struck_ = true;
      continue;
    }
    rank->news_ = {message, peer};
    rank->news_in_ = draw(plan_.longest_notice);
  }
}

bool FaultNetwork::pending(int rank) const {
  const FaultTransport& transport = *ranks_[static_cast<std::size_t>(rank)];
  if (transport.health_.failed() || killed(rank)) return false;
  if (transport.news_in_) return true;
  for (const auto& [key, end] : transport.ends_) {
    if (silent(end->rank, end->peer)) continue;
    if (end->has_unwritten() || end->consumed > end->told) return true;
    const End* from = transport.partner(*end);
    if (from == nullptr || from->wire.empty()) continue;
    const Frame& next = from->wire.front();
    if (next.complete() || next.bytes.size() > next.placed || next.delay > 0) return true;
  }
  return false;
}

bool FaultNetwork::settled() const {
  for (const auto& rank : ranks_) {
    for (const auto& [key, end] : rank->ends_) {
      if (end->acknowledged != end->published) return false;
    }
  }
  return true;
}

FaultTransport::FaultTransport(FaultNetwork& network, int rank, Health& health)
    : network_(network), rank_(rank), health_(health) {}

FaultTransport::~FaultTransport() = default;

void FaultTransport::add_endpoint(Endpoint& endpoint) {
  auto& end = ends_[Key{endpoint.peer, endpoint.channel}];
  assert(end == nullptr && endpoint.peer != rank_);
  end = std::make_unique<End>(rank_, endpoint.peer, endpoint.channel, network_.window_, network_.longest_message_);
  order_.push_back(end.get());
  endpoint.out = end->lines.get();
  endpoint.in = end->lines.get() + end->window;
  endpoint.in_slots = end->slots.get();
  endpoint.in_slots_bytes = end->window * end->slot_bytes;
  endpoint.credit_out = &end->words[0].word;
  endpoint.credit_in = &end->words[1].word;
  endpoint.taken_in = &end->words[2].word;
  endpoint.progress_in = nullptr;
  endpoint.long_call_in = nullptr;
  endpoint.notice_in = nullptr;
  endpoint.segments = nullptr;
  endpoint.window = end->window;
  endpoint.transport = this;
}

FaultTransport::End& FaultTransport::end_of(const Endpoint& endpoint) {
  return *ends_.at(Key{endpoint.peer, endpoint.channel});
}

FaultTransport::End* FaultTransport::partner(const End& end) const {
  const auto& ends = network_.ranks_[static_cast<std::size_t>(end.peer)]->ends_;
  const auto found = ends.find(Key{end.rank, end.channel});
  return found == ends.end() ? nullptr : found->second.get();
}

void FaultTransport::published(Endpoint& endpoint) {
  End& end = end_of(endpoint);
  assert(endpoint.sent >= end.published && endpoint.sent - end.acknowledged <= end.window);
  end.published = endpoint.sent;
  end.out_slots = endpoint.out_slots;
}

void FaultTransport::consumed(Endpoint& endpoint) {
  End& end = end_of(endpoint);
  assert(endpoint.received <= end.arrived);
  end.consumed = std::max(end.consumed, endpoint.received);
}

void FaultTransport::post(Endpoint& endpoint, std::byte* destination, std::uint32_t length, std::uint64_t signature) {
  End& end = end_of(endpoint);
  if (endpoint.received + 1 <= end.opened) return;
  if (network_.draw(99) < network_.plan_.ignored_post_percent) return;
  end.posted = {endpoint.received + 1, destination, length, signature};
}

void FaultTransport::withdraw(Endpoint& endpoint) {
  End& end = end_of(endpoint);
  if (network_.plan_.bug == Bug::kWritesAfterWithdraw && end.in_posted_buffer) {
    network_.bug_struck_ = true;
    return;
  }
  end.posted = {};
  if (!end.in_posted_buffer) return;
  const Frame& frame = partner(end)->wire.front();
  std::byte* const to = end.own_buffer(frame);
  std::memcpy(to, end.destination, frame.placed);
  end.destination = to;
  end.in_posted_buffer = false;
}

bool FaultTransport::progress() {
  network_.count_turn(rank_);
  if (network_.killed(rank_)) return false;
  if (news_in_ && (*news_in_)-- <= 0) {
    news_in_.reset();
    health_.fail(ErrorCode::kRemote, news_.message, news_.peer);
  }
  // What is on its way to a rank that has failed still comes; nobody looks at it.
  bool moved = false;
  std::shuffle(order_.begin(), order_.end(), network_.random_);
  for (End* end : order_) {
    if (network_.draw(99) < network_.plan_.idle_percent) continue;
    const std::size_t most = network_.plan_.most_bytes;
    const auto budget = [this, most] { return most == 0 ? ~std::size_t{0} / 16 : 1 + network_.random_() % most; };
    // A sender may be far ahead of what its receiver has taken in.
    moved |= hand_over(*end, network_.draw(1) == 1 ? budget() : 16 * budget(), false);
    moved |= take_in(*end, budget());
  }
  return moved;
}

// Reads the sender's memory. Returns whether anything moved.
bool FaultTransport::hand_over(End& end, std::size_t budget, bool all_credit) {
  if (health_.failed() || network_.silent(end.rank, end.peer)) return false;
  bool moved = false;
  while (budget > 0) {
    if (!end.wire.empty() && !end.wire.back().complete()) {
      Frame& frame = end.wire.back();
      const std::byte* from = end.source(frame.number);
      const std::size_t bytes = std::min(budget, frame.length - frame.bytes.size());
      const auto first = static_cast<std::ptrdiff_t>(frame.bytes.size());
      frame.bytes.insert(frame.bytes.end(), from + first, from + first + static_cast<std::ptrdiff_t>(bytes));
      if (frame.complete()) publish(end.words[2].word, frame.number);  // observed by read_up_to()
      budget -= bytes;
      moved = true;
      continue;
    }
    Frame frame;
    if (end.begun < end.published) {
      const Line& line = end.lines[end.index(end.begun + 1)];
      assert(peek(line.epoch) == end.begun + 1);
      frame.number = ++end.begun;
      frame.signature = line.signature;
      frame.length = Descriptor::unpack(line.descriptor).length;
      end.consumed = std::max(end.consumed, line.credit);
    } else if (end.consumed > end.told) {
      // Half a window is told at once, so that one-way traffic flows; less may wait for a message.
      if (!end.hold) end.hold = network_.draw(network_.plan_.longest_credit_hold);
      const bool due = all_credit || (end.consumed - end.told) * 2 >= end.window;
      if (!due && (*end.hold)-- > 0) break;
    } else {
      break;
    }
    frame.credit = end.told = end.consumed;
    end.hold.reset();
    if (network_.plan_.bug == Bug::kLosesCredit && !network_.bug_struck_ && frame.credit >= network_.plan_.bug_at) {
      network_.bug_struck_ = true;
      end.lost_credit = 1;
    }
    frame.credit -= std::min(frame.credit, end.lost_credit);
    frame.delay = network_.draw(network_.plan_.longest_delay);
    if (frame.number != 0 && frame.length == 0) publish(end.words[2].word, frame.number);
    end.wire.push_back(std::move(frame));
    network_.count_message(end.rank, end.peer);
    if (network_.silent(end.rank, end.peer)) return true;
    budget -= 1;
    moved = true;
  }
  return moved;
}

// Writes the receiver's memory. Returns whether anything moved.
bool FaultTransport::take_in(End& end, std::size_t budget) {
  End* const from = partner(end);
  if (from == nullptr || network_.silent(end.rank, end.peer)) return false;
  const Bug bug = network_.plan_.bug;
  bool moved = false;
  while (budget > 0 && !from->wire.empty()) {
    if (bug == Bug::kSwapsMessages && !network_.bug_struck_ && from->wire.size() > 1) {
      Frame& first = from->wire[0];
      Frame& second = from->wire[1];
      if (first.number >= network_.plan_.bug_at && second.number != 0 && !first.opened && first.complete() &&
          second.complete() && first.bytes != second.bytes && first.signature == second.signature) {
        network_.bug_struck_ = true;
        std::swap(first.bytes, second.bytes);
        std::swap(first.length, second.length);
      }
    }
    Frame& frame = from->wire.front();
    if (frame.delay > 0) {
      --frame.delay;
      return true;
    }
    if (!frame.opened) {
      frame.opened = true;
      moved = true;
      if (frame.credit > end.acknowledged) {
        end.acknowledged = frame.credit;
        publish(end.words[1].word, frame.credit);  // observed by refresh_acknowledged()
      }
      if (frame.number != 0) {
        assert(frame.number == end.opened + 1 && frame.number <= end.consumed + end.window);
        end.opened = frame.number;
        end.in_posted_buffer = end.posted.number == frame.number && end.posted.length == frame.length &&
                               end.posted.signature == frame.signature;
        end.destination = end.in_posted_buffer ? end.posted.destination : end.own_buffer(frame);
      }
    }
    const std::size_t bytes = std::min(budget, frame.bytes.size() - frame.placed);
    if (bytes > 0) std::memcpy(end.destination + frame.placed, frame.bytes.data() + frame.placed, bytes);
    moved |= bytes > 0;
    frame.placed += bytes;
    budget -= bytes;
    const bool early = bug == Bug::kPublishesEarly && !network_.bug_struck_ && frame.number >= network_.plan_.bug_at &&
                       frame.number != 0 && frame.placed < frame.length;
    if (frame.placed < frame.length && !early) break;
    if (frame.number != 0 && end.arrived < frame.number) {
      network_.bug_struck_ |= early;
      Line& line = end.lines[end.window + end.index(frame.number)];
      Descriptor descriptor{.length = static_cast<std::uint32_t>(frame.length)};
      if (end.in_posted_buffer) {
        descriptor.way = Way::kWritten;
      } else if (frame.length > Line::kPayload) {
        descriptor.way = Way::kSlot;
        descriptor.slot = static_cast<std::uint32_t>(end.index(frame.number) * end.slot_bytes / Descriptor::kSlotUnit);
      }
      line.credit = frame.credit;
      line.signature = frame.signature;
      line.descriptor = descriptor.pack();
      end.arrived = frame.number;
      publish(line.epoch, frame.number);  // observed by arrived()
    }
    if (early) break;
    end.in_posted_buffer = false;
    from->wire.pop_front();
    budget -= std::min<std::size_t>(budget, 1);
  }
  return moved;
}

// Says no for a while, though the answer is yes.
bool FaultTransport::answer_late(bool ready) {
  if (!ready) return false;
  if (!late_) late_ = network_.draw(network_.plan_.longest_written_late);
  if ((*late_)-- > 0) return false;
  late_.reset();
  return true;
}

bool FaultTransport::written() {
  if (health_.failed()) return false;
  if (network_.plan_.bug == Bug::kWrittenEarly) {
    for (const End* end : order_) network_.bug_struck_ |= end->has_unwritten();
    return true;
  }
  bool all = true;
  for (End* end : order_) {
    // A rank may do nothing more for long once this says yes: credit that is due does not wait for that.
    const bool due = (end->consumed - end->told) * 2 >= end->window;
    if (due) hand_over(*end, ~std::size_t{0}, false);
    all = all && !end->has_unwritten();
  }
  if (!all) progress();
  return answer_late(all);
}

bool FaultTransport::flush() {
  if (health_.failed()) return false;
  for (End* end : order_) hand_over(*end, 1, true);
  const bool all = std::none_of(order_.begin(), order_.end(),
                                [](const End* end) { return end->has_unwritten() || end->consumed > end->told; });
  return answer_late(all);
}

}  // namespace tutti
