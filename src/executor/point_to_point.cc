#include "executor/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "executor/distance_watch.h"
#include "transport/messages.h"

namespace tutti {
namespace {

constexpr std::size_t kFetchedBytes = 1024;
constexpr std::size_t kGuessedBytes = 1024;  // longest message whose place is guessed: more gains nothing

// Point-to-point messages match by announcement number; the line's signature says the same.
void publish_inline(Endpoint& endpoint, const void* payload, std::size_t bytes, std::uint64_t number) {
  copy_inline(next_line(endpoint).payload, static_cast<const std::byte*>(payload), bytes);
  publish_line(endpoint, {Way::kInline, 0, static_cast<std::uint32_t>(bytes)}, number, {});
}

template <class T>
T read_inline(const Line& line) {
  static_assert(sizeof(T) <= Line::kPayload);
  T value;
  std::memcpy(&value, line.payload, sizeof(T));
  return value;
}

// The next message of a peer, which is often no further than a hop away: coming back for it would take longer.
// bytes: how long it is if it is what the caller waits for. Its second cache line is asked for before the first is
// looked at, not only when that has come: a hop less, also when the message is there already.
const Line* look(const Endpoint& endpoint, int looks, std::size_t bytes) {
  const bool in_both_lines = bytes > Line::kPayloadOfFirst && bytes <= Line::kPayload;
  if (in_both_lines) fetch_second_line(endpoint);
  const Line* line = arrived(endpoint);
  if (endpoint.transport != nullptr) return line;
  for (; line == nullptr && looks > 0; --looks) {
    relax_cpu();
    if (in_both_lines) fetch_second_line(endpoint);
    line = arrived(endpoint);
  }
  return line;
}

// Asks for the beginning of what is read soon; the processor sees by itself how it goes on.
void fetch(const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < std::min(bytes, kFetchedBytes); at += sizeof(Line) / 2) __builtin_prefetch(from + at);
}

}  // namespace

PointToPoint::PointToPoint(int ranks, Health& health, Wiring wiring)
    : health_(health), wiring_(std::move(wiring)), peers_(static_cast<std::size_t>(ranks)) {}

PointToPoint::~PointToPoint() = default;

PointToPoint::Peer& PointToPoint::peer_state(int rank) {
  std::atomic<Peer*>& known = peers_[static_cast<std::size_t>(rank)];
  if (Peer* peer = known.load(std::memory_order_acquire)) return *peer;  // stored below
  const std::lock_guard lock(connecting_);
  if (Peer* peer = known.load(std::memory_order_acquire)) return *peer;
  auto peer = std::make_unique<Peer>();
  peer->pieces = wiring_.pieces(rank);
  for (int c = 0; c < kConnections; ++c) {
    Endpoint& endpoint = peer->endpoints[static_cast<std::size_t>(c)];
    endpoint.peer = static_cast<std::uint16_t>(rank);
    endpoint.out_slots = wiring_.slots;
    wiring_.connect(static_cast<Connection>(c), endpoint);
    endpoint.progress_in = nullptr;  // progress words count collectives
  }
  owned_.push_back(std::move(peer));
  known.store(owned_.back().get(), std::memory_order_release);
  return *owned_.back();
}

std::optional<PointToPoint::Mismatch> PointToPoint::mismatch(int peer) {
  Peer& state = peer_state(peer);
  const std::lock_guard lock(state.lock);
  return state.mismatch;
}

Progress PointToPoint::progress_send(Transfer& transfer) {
  if (health_.failed()) return Progress::kFailed;
  if (transfer.stage == Transfer::Stage::kIssued) unannounced_.enter(transfer);
  Peer& peer = peer_state(transfer.peer);
  const std::lock_guard lock(peer.lock);
  if (transfer.stage == Transfer::Stage::kIssued && !announce(peer, transfer)) return Progress::kAgain;
  if (transfer.stage == Transfer::Stage::kAnnounced && !granted(peer, transfer)) return Progress::kAgain;
  if (transfer.stage == Transfer::Stage::kAnnounced) {
    if (transfer.early >= 0) peer.early_taken[static_cast<std::size_t>(transfer.early)] = false;
    const bool taken = transfer.bytes() <= kMostEnclosed || transfer.early >= 0;
    if (taken) transfer.moved = transfer.bytes();
    transfer.stage = taken ? Transfer::Stage::kMoved : Transfer::Stage::kGranted;
  }
  if (transfer.stage == Transfer::Stage::kGranted) {
    send_pieces(peer, transfer);
    if (transfer.moved < transfer.bytes()) return Progress::kAgain;
    transfer.stage = Transfer::Stage::kMoved;
    transfer.last_piece = peer.endpoints[static_cast<std::size_t>(Connection::kData)].sent;
  }
  if (transfer.last_piece == 0) return Progress::kDone;  // the receiver had the bytes when it granted them
  // The receiver has the bytes when it has acknowledged the last piece.
  Endpoint& data = peer.endpoints[static_cast<std::size_t>(Connection::kData)];
  refresh_acknowledged(data);
  for (int looks = data.transport == nullptr ? transfer.looks : 0; looks > 0 && data.acknowledged < transfer.last_piece;
       --looks) {
    relax_cpu();
    refresh_acknowledged(data);
  }
  return data.acknowledged >= transfer.last_piece ? Progress::kDone : Progress::kAgain;
}

bool PointToPoint::announce(Peer& peer, Transfer& transfer) {
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kAnnounce)];
  if (!can_publish(endpoint) || !unannounced_.is_next(transfer, transfer.peer)) return false;
  const std::size_t bytes = transfer.bytes();
  const std::size_t enclosed = bytes <= kMostEnclosed ? bytes : 0;
  Descriptor descriptor{Way::kInline, 0, static_cast<std::uint32_t>(sizeof(Announcement) + enclosed)};
  if (bytes > kMostEnclosed && bytes <= kEarlyBytes && endpoint.transport == nullptr &&
      !peer.early_taken[peer.next_early]) {
    descriptor = place_early(peer, transfer);
  }
  unannounced_.leave(transfer);
  transfer.number = ++peer.announced;
  const Announcement announcement{transfer.number, transfer.count, transfer.tag,
                                  static_cast<std::int32_t>(transfer.type)};
  std::byte* payload = next_line(endpoint).payload;
  copy_inline(payload + sizeof(announcement), transfer.input, enclosed);  // may lie in the second cache line: first
  std::memcpy(payload, &announcement, sizeof(announcement));
  publish_line(endpoint, descriptor, transfer.number, {});
  transfer.stage = Transfer::Stage::kAnnounced;
  return true;
}

// Puts a message where the receiver finds it; it stays there until it is granted. May throw Error, and has changed
// nothing then.
Descriptor PointToPoint::place_early(Peer& peer, Transfer& transfer) {
  const std::size_t window = peer.endpoints[static_cast<std::size_t>(Connection::kAnnounce)].window;
  const std::size_t places = peer.pieces + window * wiring_.piece_bytes;
  if (!peer.early_reserved) wiring_.reserve(places, window * kEarlyBytes);
  peer.early_reserved = true;
  const std::size_t place = places + peer.next_early * kEarlyBytes;
  std::memcpy(wiring_.slots + place, transfer.input, transfer.bytes());
  transfer.early = static_cast<std::int8_t>(peer.next_early);
  peer.early_taken[peer.next_early] = true;
  peer.next_early = (peer.next_early + 1) % window;
  return {Way::kSlot, static_cast<std::uint32_t>(place / Descriptor::kSlotUnit),
          static_cast<std::uint32_t>(transfer.bytes())};
}

// A grant at the head is for one of this rank's sends; if it is not this one, its own thread will take it.
bool PointToPoint::granted(Peer& peer, const Transfer& transfer) {
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kGrant)];
  const Line* line = look(endpoint, transfer.looks, sizeof(transfer.number));
  if (line == nullptr || read_inline<std::uint64_t>(*line) != transfer.number) return false;
  take_message(endpoint, *line);
  settle_credit(endpoint);
  return true;
}

void PointToPoint::send_pieces(Peer& peer, Transfer& transfer) {
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kData)];
  while (transfer.moved < transfer.bytes() && can_publish(endpoint)) {
    const std::size_t bytes = std::min(transfer.bytes() - transfer.moved, wiring_.piece_bytes);
    const std::byte* from = transfer.input + transfer.moved;
    if (bytes <= Line::kPayload) {
      publish_inline(endpoint, from, bytes, transfer.number);
    } else {
      if (!std::exchange(peer.reserved, true)) wiring_.reserve(peer.pieces, endpoint.window * wiring_.piece_bytes);
      const std::size_t slot = peer.pieces + line_index(endpoint, endpoint.sent + 1) * wiring_.piece_bytes;
      std::memcpy(wiring_.slots + slot, from, bytes);
      publish_line(
          endpoint,
          {Way::kSlot, static_cast<std::uint32_t>(slot / Descriptor::kSlotUnit), static_cast<std::uint32_t>(bytes)},
          transfer.number, {});
    }
    transfer.moved += bytes;
  }
}

Progress PointToPoint::progress_receive(Transfer& transfer) {
  if (health_.failed()) return Progress::kFailed;
  if (transfer.stage == Transfer::Stage::kIssued) {
    unmatched_.enter(transfer);
    const std::size_t ranks = peers_.size();
    const bool any = transfer.peer == kAnySource;
    const std::size_t first = any ? peek(first_source_) : static_cast<std::size_t>(transfer.peer);
    for (std::size_t i = 0; i < (any ? ranks : 1); ++i) {
      const std::size_t source = (first + i) % ranks;
      Peer& peer = peer_state(static_cast<int>(source));
      const std::lock_guard lock(peer.lock);
      collect_announcements(peer, any ? 0 : transfer.looks, transfer.bytes());
      if (health_.failed()) return Progress::kFailed;
      if (!match(peer, static_cast<int>(source), transfer)) continue;
      if (transfer.stage == Transfer::Stage::kIssued) return Progress::kFailed;  // it does not match
      if (any) note(first_source_, source + 1);
      break;
    }
    if (transfer.stage == Transfer::Stage::kIssued) return Progress::kAgain;
  }
  Peer& peer = peer_state(transfer.peer);
  const std::lock_guard lock(peer.lock);
  if (transfer.stage == Transfer::Stage::kMoved) return Progress::kDone;  // the peer may be at its next message
  receive_pieces(peer, transfer);
  if (health_.failed()) return Progress::kFailed;
  if (transfer.moved < transfer.bytes()) return Progress::kAgain;
  tell_credit(peer.endpoints[static_cast<std::size_t>(Connection::kData)]);
  peer.receiving = false;
  transfer.stage = Transfer::Stage::kMoved;
  return Progress::kDone;
}

// Only a rank whose memory is damaged says such a thing.
void PointToPoint::fail_for(int peer, const char* what) {
  health_.fail(ErrorCode::kRemote,
               fmt::format("rank {} sent {}: its memory is damaged, or it runs another version of tutti; look at that "
                           "rank first",
                           peer, what),
               peer);
}

void PointToPoint::withdraw(Transfer& transfer) {
  // The locks may be held for ever by a thread that is not here; and nothing was begun.
  if (health_.used_after_fork()) return;
  unannounced_.leave(transfer);
  unmatched_.leave(transfer);
}

// For a far reader that waits for an early message: if it is there already, its lines need not come only after its
// announcement. If it is not, they are mostly still here as they were read last, and asking for them costs nobody
// anything, unless the peer is just writing them: near, that costs more than there is to gain.
void PointToPoint::fetch_where_early(const Peer& peer, std::size_t bytes) {
  const Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kAnnounce)];
  if (endpoint.hop_ns < DistanceWatch::kFar_ns) return;
  const std::byte* const next = peer.early_places[line_index(endpoint, peer.early_seen)];
  if (next != nullptr) fetch(next, bytes);
}

// bytes: of the message that the caller waits for.
void PointToPoint::collect_announcements(Peer& peer, int looks, std::size_t bytes) {
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kAnnounce)];
  const std::size_t awaited = sizeof(Announcement) + (bytes <= kMostEnclosed ? bytes : 0);
  if (looks > 0 && bytes > kMostEnclosed && bytes <= kGuessedBytes) fetch_where_early(peer, bytes);
  while (peer.unmatched_count < kMostUnmatched) {
    const Line* line = look(endpoint, peer.unmatched_count == 0 ? looks : 0, awaited);
    if (line == nullptr) return;
    const Announcement announced = read_inline<Announcement>(*line);
    if (announced.type < 0 || announced.type >= kDataTypes)
      return fail_for(endpoint.peer, "a type that does not exist");
    const Descriptor descriptor = Descriptor::unpack(line->descriptor);
    Unmatched& unmatched = peer.unmatched[peer.unmatched_count];
    if (descriptor.way == Way::kInline && descriptor.length >= sizeof(announced) &&
        descriptor.length <= Line::kPayload) {
      unmatched.length = descriptor.length - sizeof(announced);
      unmatched.early = nullptr;
      copy_inline(unmatched.enclosed.data(), line->payload + sizeof(announced), unmatched.length);
    } else if (descriptor.way == Way::kSlot && endpoint.transport == nullptr && lies_in_slots(endpoint, descriptor)) {
      unmatched.length = descriptor.length;
      unmatched.early = endpoint.in_slots + descriptor.slot * Descriptor::kSlotUnit;
      fetch(unmatched.early, unmatched.length);
      peer.early_places[line_index(endpoint, peer.early_seen++)] = unmatched.early;
    } else {
      return fail_for(endpoint.peer, "an announcement of a length that there is not");
    }
    unmatched.announced = announced;
    ++peer.unmatched_count;
    take_message(endpoint, *line);
    settle_credit(endpoint);
  }
}

// Grants the first announcement with the receive's tag, unless another message of this peer is being moved or an
// earlier receive may have it. Returns whether there was one; a mismatch is not granted. What is there of it is taken.
bool PointToPoint::match(Peer& peer, int rank, Transfer& transfer) {
  Endpoint& grants = peer.endpoints[static_cast<std::size_t>(Connection::kGrant)];
  if (peer.receiving || !can_publish(grants)) return false;
  const auto end = peer.unmatched.begin() + static_cast<std::ptrdiff_t>(peer.unmatched_count);
  const auto found = std::find_if(peer.unmatched.begin(), end,
                                  [&](const Unmatched& other) { return other.announced.tag == transfer.tag; });
  if (found == end || !unmatched_.is_next(transfer, rank)) return false;
  unmatched_.leave(transfer);
  const Announcement announced = found->announced;
  transfer.peer = rank;
  transfer.number = announced.number;
  if (announced.count != transfer.count || announced.type != static_cast<std::int32_t>(transfer.type)) {
    peer.mismatch = Mismatch{rank, static_cast<DataType>(announced.type), announced.count};
    return true;
  }
  const bool here = found->early != nullptr || transfer.bytes() <= kMostEnclosed;
  if (found->length != (here ? transfer.bytes() : 0)) {
    fail_for(rank, "less or more bytes than it announced");
    return true;
  }
  if (found->early != nullptr) {
    std::memcpy(transfer.output, found->early, found->length);
  } else {
    copy_inline(transfer.output, found->enclosed.data(), found->length);
  }
  transfer.moved = found->length;
  std::copy(found + 1, end, found);
  --peer.unmatched_count;
  peer.receiving = !here;
  transfer.stage = here ? Transfer::Stage::kMoved : Transfer::Stage::kGranted;
  publish_inline(grants, &announced.number, sizeof(announced.number), announced.number);
  return true;
}

void PointToPoint::receive_pieces(Peer& peer, Transfer& transfer) {
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kData)];
  while (transfer.moved < transfer.bytes()) {
    const Line* line = look(endpoint, transfer.looks, std::min(transfer.bytes() - transfer.moved, wiring_.piece_bytes));
    if (line == nullptr) return;
    const Descriptor descriptor = Descriptor::unpack(line->descriptor);
    const std::size_t bytes = descriptor.length;
    const bool in_line = descriptor.way == Way::kInline && bytes <= Line::kPayload;
    const bool in_slot = descriptor.way == Way::kSlot && lies_in_slots(endpoint, descriptor);
    if (!(in_line || in_slot) || bytes == 0 || bytes > transfer.bytes() - transfer.moved ||
        line->signature != transfer.number) {
      return fail_for(transfer.peer, "a piece of another message, or of none");
    }
    const std::byte* from = in_line ? line->payload : endpoint.in_slots + descriptor.slot * Descriptor::kSlotUnit;
    std::memcpy(transfer.output + transfer.moved, from, bytes);
    transfer.moved += bytes;
    take_message(endpoint, *line);
    settle_credit(endpoint);
  }
}

}  // namespace tutti
