#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/health.h"
#include "base/sync.h"
#include "executor/call.h"
#include "executor/issue_order.h"
#include "transport/endpoint.h"
#include "transport/line.h"
#include "transport/shm/segment_layout.h"
#include "tutti/types.h"

namespace tutti {

// One send or receive, and how far it got. It may be carried on by any thread, one at a time.
struct Transfer {
  enum class Stage { kIssued, kAnnounced, kGranted, kMoved };

  int peer = 0;  // kAnySource until the sender is known
  int tag = 0;
  DataType type = DataType::kU8;
  std::int8_t early = -1;  // of a send: the place for early messages that its bytes lie in; -1: none
  std::size_t count = 0;
  const std::byte* input = nullptr;  // of a send
  std::byte* output = nullptr;       // of a receive

  int looks = 0;  // at a message that is not there yet, before the thread does something else

  Stage stage = Stage::kIssued;
  std::uint64_t number = 0;  // of the sender's announcements to this receiver
  std::size_t moved = 0;     // bytes
  std::uint64_t last_piece =
      0;                    // number of the message that carried the last of them; 0: they went with the announcement
  IssueOrder::Place place;  // until it is announced, or has its message
  std::size_t bytes() const { return count * element_size(type); }
};

// Sends and receives of one rank. They stand beside the order of collectives and have connections of their own, three
// to each peer: the sender announces a message, the receiver grants one that it has a matching receive for, the sender
// moves its bytes in pieces. A message that fits behind its announcement goes with it, and is received when it is
// granted. So is a short one between ranks of a host: it is early, and lies in a place of its own before it is
// announced, unless all places are taken by others. Per pair of ranks one message moves at a time; announcements may be
// granted in any order, so tags do not block each other.
//
// Any number of threads may carry on transfers at the same time. Never sleeps; allocates only for a peer's first
// message.
class PointToPoint {
 public:
  enum class Connection { kAnnounce, kGrant, kData };
  static constexpr int kConnections = kPointToPointConnections;
  static constexpr std::size_t kMostUnmatched = 64;  // announcements of a peer that wait for their receive

  // What set-up provides; the functions are called once for each peer, when the first message to or from it is near.
  struct Wiring {
    std::byte* slots = nullptr;  // this rank's memory for slots
    std::size_t piece_bytes = 0;
    // Where in it the pieces for a peer lie: `window` of them, and behind them as many places of kEarlyBytes.
    std::function<std::size_t(int peer)> pieces;
    // Takes memory for a part of the slots. May throw Error.
    std::function<void(std::size_t offset, std::size_t bytes)> reserve;
    // Connects an endpoint; peer is set. May throw Error.
    std::function<void(Connection connection, Endpoint& endpoint)> connect;
  };
  PointToPoint(int ranks, Health& health, Wiring wiring);
  ~PointToPoint();

  // Gives a transfer its place among those that match the same messages, before it is carried on for the first time.
  void post(Transfer& transfer, bool sending) { (sending ? unannounced_ : unmatched_).enter(transfer); }
  // Both may be called again after kDone, and answer it again.
  Progress progress_send(Transfer& transfer);
  // On kDone, transfer.peer is the sender.
  Progress progress_receive(Transfer& transfer);
  // After a transfer has failed, or is given up: it may be destroyed.
  void withdraw(Transfer& transfer);

  // What a receive met that does not match it: the sender's count and type. Set before progress_receive() fails for it.
  struct Mismatch {
    int peer;
    DataType type;
    std::size_t count;
  };
  std::optional<Mismatch> mismatch(int peer);

 private:
  struct Announcement {
    std::uint64_t number;
    std::uint64_t count;
    std::int32_t tag;
    std::int32_t type;
  };
  static_assert(sizeof(Announcement) == 24);
  static constexpr std::size_t kMostEnclosed = Line::kPayload - sizeof(Announcement);  // bytes that go with it
  // One that waits for its receive.
  struct Unmatched {
    Announcement announced;
    std::size_t length;      // of what is there of the message, in bytes: all of it or nothing
    const std::byte* early;  // where that lies in the sender's memory until it is granted; null: in `enclosed`
    std::array<std::byte, kMostEnclosed> enclosed;
  };

  struct Peer {
    SpinLock lock;  // guards everything below
    std::array<Endpoint, kConnections> endpoints;
    std::size_t pieces = 0;
    bool reserved = false;
    std::uint64_t announced = 0;  // number of the last message announced to the peer
    std::array<Unmatched, kMostUnmatched> unmatched;
    std::size_t unmatched_count = 0;
    bool receiving = false;  // a message of the peer is being moved here
    std::optional<Mismatch> mismatch;

    // Early messages, sent …
    bool early_reserved = false;
    std::array<bool, kMaxWindow> early_taken{};  // by place
    std::size_t next_early = 0;                  // the place to look at next
    // … and come: where the last ones lay, and how many there were. The peer's places come round.
    std::array<const std::byte*, kMaxWindow> early_places{};
    std::uint64_t early_seen = 0;
  };

  Peer& peer_state(int rank);
  bool announce(Peer& peer, Transfer& transfer);
  [[gnu::noinline]] Descriptor place_early(Peer& peer, Transfer& transfer);
  bool granted(Peer& peer, const Transfer& transfer);
  void send_pieces(Peer& peer, Transfer& transfer);
  static void fetch_where_early(const Peer& peer, std::size_t bytes);
  void collect_announcements(Peer& peer, int looks, std::size_t bytes);
  bool match(Peer& peer, int rank, Transfer& transfer);
  void receive_pieces(Peer& peer, Transfer& transfer);
  void fail_for(int peer, const char* what);

  Health& health_;
  Wiring wiring_;
  std::mutex connecting_;
  std::vector<std::unique_ptr<Peer>> owned_;
  std::vector<std::atomic<Peer*>> peers_;  // by rank, the own one included; null until needed
  IssueOrder unannounced_;                 // sends
  IssueOrder unmatched_;                   // receives
  Word first_source_{0};                   // where a receive from any source looks first: after the last one found
};

}  // namespace tutti
