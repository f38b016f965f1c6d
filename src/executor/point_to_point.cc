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
  if (health_.used_after_fork()) return Progress::kFailed;  // the locks may be held for ever
  Peer& peer = peer_state(transfer.peer);
  const std::lock_guard lock(peer.lock);
  transfer.helped = false;
  if (transfer.stage == Transfer::Stage::kIssued) {
    if (health_.failed()) return Progress::kFailed;
    unannounced_.enter(transfer);
    if (!announce(peer, transfer)) {
      help_others(peer, transfer);
      return unfinished();
    }
  }
  if (!peer.waiting.empty()) take_grants(peer, transfer);
  help_others(peer, transfer);
  note_progress(transfer);
  return is_taken(peer, transfer) ? Progress::kDone : unfinished();
}

// Whether the receiver has all of a send.
bool PointToPoint::is_taken(Peer& peer, const Transfer& transfer) {
  if (transfer.stage != Transfer::Stage::kMoved) return false;
  if (transfer.last_piece == 0) return true;  // the receiver had the bytes when it granted them
  // The receiver has the bytes when it has acknowledged the last piece.
  Endpoint& data = peer.endpoints[static_cast<std::size_t>(Connection::kData)];
  refresh_acknowledged(data);
  for (int looks = data.transport == nullptr ? transfer.looks : 0; looks > 0 && data.acknowledged < transfer.last_piece;
       --looks) {
    relax_cpu();
    refresh_acknowledged(data);
  }
  return data.acknowledged >= transfer.last_piece;
}

// What the peer waits for, of transfers whose own threads may be elsewhere.
void PointToPoint::help_others(Peer& peer, Transfer& by) {
  if (peer.sending == nullptr && peer.receiver == nullptr) return;
  if (health_.failed()) return;
  if (Transfer* const other = peer.sending) {
    const std::size_t moved = other->moved;
    send_pieces(peer);
    by.helped |= other != &by && other->moved != moved;
  }
  if (Transfer* const other = peer.receiver; other != nullptr && other != &by) {
    const std::size_t moved = other->moved;
    receive_pieces(peer, 0);
    by.helped |= other->moved != moved;
  }
}

void PointToPoint::note_progress(Transfer& transfer) {
  transfer.advanced = transfer.stage != transfer.known_stage || transfer.moved != transfer.known_moved;
  transfer.known_stage = transfer.stage;
  transfer.known_moved = transfer.moved;
}

bool PointToPoint::has_room(Endpoint& endpoint) {
  if (can_publish(endpoint)) return true;
  // Nothing more could ever be sent to this peer, and nobody would know why.
  if (endpoint.acknowledged > endpoint.sent)
    fail_for(endpoint.peer, "an acknowledgement of a message that it was never sent");
  return false;
}

bool PointToPoint::is_full(int peer) {
  Peer& state = peer_state(peer);
  const std::lock_guard lock(state.lock);
  return state.outstanding >= wiring_.most_unmatched;
}

bool PointToPoint::is_in_vain(const Transfer& transfer, bool sending) {
  if (sending || transfer.matched || peek(gave_up_) != 0) return true;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (transfer.peer != kAnySource && rank != static_cast<std::size_t>(transfer.peer)) continue;
    Peer* const peer = peers_[rank].load(std::memory_order_acquire);  // stored by peer_state()
    if (peer == nullptr) continue;
    const std::lock_guard lock(peer->lock);
    // An earlier receive comes first; what is left is for this one.
    if (peer->unmatched.find(transfer.tag) != nullptr) return false;
  }
  return true;
}

bool PointToPoint::announce(Peer& peer, Transfer& transfer) {
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kAnnounce)];
  if (!has_room(endpoint)) return false;
  if (peer.outstanding >= wiring_.most_unmatched) {
    take_grants(peer, transfer);
    if (peer.outstanding >= wiring_.most_unmatched) return false;
  }
  if (!unannounced_.is_next(transfer, transfer.peer)) return false;
  const std::size_t bytes = transfer.bytes();
  const std::size_t enclosed = bytes <= kMostEnclosed ? bytes : 0;
  Descriptor descriptor{Way::kInline, 0, static_cast<std::uint32_t>(sizeof(Announcement) + enclosed)};
  if (bytes > kMostEnclosed && bytes <= kEarlyBytes && endpoint.transport == nullptr &&
      !peer.early_taken[peer.next_early]) {
    descriptor = place_early(peer, transfer);
  }
  unannounced_.leave(transfer);
  transfer.number = ++peer.announced;
  ++peer.outstanding;
  peer.waiting.enter(transfer);
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

// The grants that are there, each for the send that it is for, up to this one's.
void PointToPoint::take_grants(Peer& peer, Transfer& by) {
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kGrant)];
  const bool waits = by.stage == Transfer::Stage::kAnnounced;
  std::uint64_t number = 0;
  while (const Line* line = look(endpoint, waits ? by.looks : 0, sizeof(number))) {
    number = read_once_as<std::uint64_t>(line->payload);
    take_message(endpoint, *line);
    settle_credit(endpoint);
    const bool own = waits && number == by.number;
    Transfer* const transfer = own ? &by : peer.waiting.find(number);
    // One that is not found has been withdrawn.
    if (number == 0 || number > peer.announced || peer.outstanding == 0) {
      return fail_for(endpoint.peer, "a grant for a message that was never announced to it");
    }
    --peer.outstanding;
    if (transfer != nullptr) grant(peer, *transfer);
    if (own) return;
    by.helped = true;
  }
}

void PointToPoint::grant(Peer& peer, Transfer& transfer) {
  peer.waiting.leave(transfer);
  const bool taken = transfer.bytes() <= kMostEnclosed || transfer.early >= 0;
  if (transfer.early >= 0) peer.early_taken[static_cast<std::size_t>(transfer.early)] = false;
  if (taken) {
    transfer.moved = transfer.bytes();
    transfer.stage = Transfer::Stage::kMoved;
  } else if (peer.sending != nullptr) {
    fail_for(transfer.peer, "a grant for a message while another one moves");
  } else {
    transfer.stage = Transfer::Stage::kGranted;
    peer.sending = &transfer;
  }
}

// Of the message that is being sent.
void PointToPoint::send_pieces(Peer& peer) {
  Transfer& transfer = *peer.sending;
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kData)];
  while (transfer.moved < transfer.bytes() && has_room(endpoint)) {
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
  if (transfer.moved < transfer.bytes()) return;
  transfer.stage = Transfer::Stage::kMoved;
  transfer.last_piece = endpoint.sent;
  peer.sending = nullptr;
}

Progress PointToPoint::progress_receive(Transfer& transfer) {
  if (health_.used_after_fork()) return Progress::kFailed;  // the locks may be held for ever
  transfer.helped = false;
  if (!transfer.matched) {
    unmatched_.enter(transfer);
    const std::size_t ranks = peers_.size();
    const bool any = transfer.peer == kAnySource;
    const std::size_t first = any ? peek(first_source_) : static_cast<std::size_t>(transfer.peer);
    for (std::size_t i = 0; i < (any ? ranks : 1); ++i) {
      const std::size_t source = (first + i) % ranks;
      Peer& peer = peer_state(static_cast<int>(source));
      const std::lock_guard lock(peer.lock);
      if (!peer.waiting.empty()) take_grants(peer, transfer);
      help_others(peer, transfer);
      collect_announcements(peer, any ? 0 : transfer.looks, transfer.bytes());
      if (!match(peer, static_cast<int>(source), transfer)) continue;
      if (!transfer.matched) return Progress::kFailed;  // it does not match
      if (any) note(first_source_, source + 1);
      if (transfer.stage == Transfer::Stage::kMoved) return Progress::kDone;
      break;
    }
    if (!transfer.matched) return unfinished();
  }
  Peer& peer = peer_state(transfer.peer);
  const std::lock_guard lock(peer.lock);
  if (peer.receiver == &transfer) receive_pieces(peer, transfer.looks);
  note_progress(transfer);
  return transfer.stage == Transfer::Stage::kMoved ? Progress::kDone : unfinished();
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
  if (transfer.place.order == &unmatched_) note(gave_up_, 1);  // before a later receive is next
  unmatched_.leave(transfer);
  if (transfer.peer == kAnySource) return;
  Peer* const peer =
      peers_[static_cast<std::size_t>(transfer.peer)].load(std::memory_order_acquire);  // by peer_state()
  if (peer == nullptr) return;
  const std::lock_guard lock(peer->lock);
  if (transfer.stage == Transfer::Stage::kAnnounced) peer->waiting.leave(transfer);
  if (peer->sending == &transfer) peer->sending = nullptr;
  if (peer->receiver == &transfer) peer->receiver = nullptr;
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
  while (const Line* line = look(endpoint, peer.unmatched.size() == 0 ? looks : 0, awaited)) {
    const auto announced = read_once_as<Announcement>(line->payload);
    if (announced.type < 0 || announced.type >= kDataTypes) {
      return fail_for(endpoint.peer, "a type that does not exist");
    }
    if (peer.unmatched.size() >= wiring_.most_unmatched) {
      return fail_for(endpoint.peer, "more announcements than may wait for their receives");
    }
    const Descriptor descriptor = Descriptor::unpack(read_once(line->descriptor));
    if (descriptor.way == Way::kInline && descriptor.length >= sizeof(announced) &&
        descriptor.length <= Line::kPayload) {
      UnmatchedMessages::Message& message = peer.unmatched.add(announced);
      message.length = descriptor.length - sizeof(announced);
      message.early = nullptr;
      copy_inline(message.enclosed.data(), line->payload + sizeof(announced), message.length);
    } else if (descriptor.way == Way::kSlot && endpoint.transport == nullptr && lies_in_slots(endpoint, descriptor)) {
      UnmatchedMessages::Message& message = peer.unmatched.add(announced);
      message.length = descriptor.length;
      message.early = endpoint.in_slots + descriptor.slot * Descriptor::kSlotUnit;
      fetch(message.early, message.length);
      peer.early_places[line_index(endpoint, peer.early_seen++)] = message.early;
    } else {
      return fail_for(endpoint.peer, "an announcement of a length that there is not");
    }
    take_message(endpoint, *line);
    settle_credit(endpoint);
  }
}

// Grants the first announcement with the receive's tag, unless another message of this peer is being moved or an
// earlier receive may have it. Returns whether there was one; a mismatch is not granted, nor what a probe finds. What
// is there of it is taken.
bool PointToPoint::match(Peer& peer, int rank, Transfer& transfer) {
  Endpoint& grants = peer.endpoints[static_cast<std::size_t>(Connection::kGrant)];
  UnmatchedMessages::Message* const found = peer.unmatched.find(transfer.tag);
  if (found == nullptr) return false;
  if (!transfer.probes && (peer.receiving || !has_room(grants))) return false;
  const Announcement announced = found->announced;
  const auto type = static_cast<DataType>(announced.type);
  const bool fits = transfer.probes || (announced.count <= transfer.count && type == transfer.type);
  const bool here = found->early != nullptr || announced.count * element_size(type) <= kMostEnclosed;
  // After a failure nobody sends the rest. Nor is it certain whose message this is, once an earlier receive gave up.
  if (health_.failed() && (!(fits && here) || peek(gave_up_) != 0)) return false;
  if (!unmatched_.is_next(transfer, rank)) return false;
  unmatched_.leave(transfer);
  transfer.peer = rank;
  transfer.number = announced.number;
  if (!fits) {
    peer.mismatch = Mismatch{rank, type, announced.count};
    return true;
  }
  transfer.count = announced.count;
  if (transfer.probes) {
    transfer.type = type;
    transfer.matched = true;
    transfer.stage = Transfer::Stage::kMoved;
    return true;
  }
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
  peer.unmatched.remove(*found);
  peer.receiving = !here;
  peer.receiver = here ? nullptr : &transfer;
  transfer.matched = true;
  transfer.stage = here ? Transfer::Stage::kMoved : Transfer::Stage::kGranted;
  publish_inline(grants, &announced.number, sizeof(announced.number), announced.number);
  return true;
}

// Of the message that is being moved here.
void PointToPoint::receive_pieces(Peer& peer, int looks) {
  Transfer& transfer = *peer.receiver;
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kData)];
  while (transfer.moved < transfer.bytes()) {
    const Line* line = look(endpoint, looks, std::min(transfer.bytes() - transfer.moved, wiring_.piece_bytes));
    if (line == nullptr) return;
    const Descriptor descriptor = Descriptor::unpack(read_once(line->descriptor));
    const std::size_t bytes = descriptor.length;
    const bool in_line = descriptor.way == Way::kInline && bytes <= Line::kPayload;
    const bool in_slot = descriptor.way == Way::kSlot && lies_in_slots(endpoint, descriptor);
    if (!(in_line || in_slot) || bytes == 0 || bytes > transfer.bytes() - transfer.moved ||
        read_once(line->signature) != transfer.number) {
      return fail_for(transfer.peer, "a piece of another message, or of none");
    }
    const std::byte* from = in_line ? line->payload : endpoint.in_slots + descriptor.slot * Descriptor::kSlotUnit;
    std::memcpy(transfer.output + transfer.moved, from, bytes);
    transfer.moved += bytes;
    take_message(endpoint, *line);
    settle_credit(endpoint);
  }
  tell_credit(endpoint);
  transfer.stage = Transfer::Stage::kMoved;
  peer.receiving = false;
  peer.receiver = nullptr;
}

}  // namespace tutti
