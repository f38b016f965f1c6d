#include "executor/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "transport/messages.h"

namespace tutti {
namespace {

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
// bytes: how long it is if it is what the caller waits for.
const Line* look(const Endpoint& endpoint, int looks, std::size_t bytes) {
  const Line* line = arrived(endpoint);
  if (endpoint.transport != nullptr) return line;
  const bool in_both_lines = bytes > Line::kPayloadOfFirst && bytes <= Line::kPayload;
  for (; line == nullptr && looks > 0; --looks) {
    relax_cpu();
    if (in_both_lines) fetch_second_line(endpoint);
    line = arrived(endpoint);
  }
  return line;
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
    const bool enclosed = transfer.bytes() <= kMostEnclosed;
    if (enclosed) transfer.moved = transfer.bytes();
    transfer.stage = enclosed ? Transfer::Stage::kMoved : Transfer::Stage::kGranted;
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
  unannounced_.leave(transfer);
  transfer.number = ++peer.announced;
  const Announcement announcement{transfer.number, transfer.count, transfer.tag,
                                  static_cast<std::int32_t>(transfer.type)};
  const std::size_t enclosed = transfer.bytes() <= kMostEnclosed ? transfer.bytes() : 0;
  std::byte* payload = next_line(endpoint).payload;
  copy_inline(payload + sizeof(announcement), transfer.input, enclosed);  // may lie in the second cache line: first
  std::memcpy(payload, &announcement, sizeof(announcement));
  publish_line(endpoint, {Way::kInline, 0, static_cast<std::uint32_t>(sizeof(announcement) + enclosed)},
               transfer.number, {});
  transfer.stage = Transfer::Stage::kAnnounced;
  return true;
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

// bytes: of the message that the caller waits for.
void PointToPoint::collect_announcements(Peer& peer, int looks, std::size_t bytes) {
  Endpoint& endpoint = peer.endpoints[static_cast<std::size_t>(Connection::kAnnounce)];
  const std::size_t awaited = sizeof(Announcement) + (bytes <= kMostEnclosed ? bytes : 0);
  while (peer.unmatched_count < kMostUnmatched) {
    const Line* line = look(endpoint, peer.unmatched_count == 0 ? looks : 0, awaited);
    if (line == nullptr) return;
    const Announcement announced = read_inline<Announcement>(*line);
    if (announced.type < 0 || announced.type >= kDataTypes)
      return fail_for(endpoint.peer, "a type that does not exist");
    const std::size_t length = Descriptor::unpack(line->descriptor).length;
    if (length < sizeof(announced) || length > Line::kPayload) {
      return fail_for(endpoint.peer, "an announcement of a length that there is not");
    }
    Unmatched& unmatched = peer.unmatched[peer.unmatched_count++];
    unmatched.announced = announced;
    unmatched.enclosed = length - sizeof(announced);
    copy_inline(unmatched.bytes.data(), line->payload + sizeof(announced), unmatched.enclosed);
    take_message(endpoint, *line);
    settle_credit(endpoint);
  }
}

// Grants the first announcement with the receive's tag, unless another message of this peer is being moved or an
// earlier receive may have it. Returns whether there was one; a mismatch is not granted. What came with it is taken.
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
  const bool enclosed = transfer.bytes() <= kMostEnclosed;
  if (found->enclosed != (enclosed ? transfer.bytes() : 0)) {
    fail_for(rank, "less or more bytes than it announced");
    return true;
  }
  if (enclosed) copy_inline(transfer.output, found->bytes.data(), transfer.bytes());
  std::copy(found + 1, end, found);
  --peer.unmatched_count;
  if (enclosed) transfer.moved = transfer.bytes();
  peer.receiving = !enclosed;
  transfer.stage = enclosed ? Transfer::Stage::kMoved : Transfer::Stage::kGranted;
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
