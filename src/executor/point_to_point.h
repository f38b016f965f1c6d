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
#include "executor/transfer.h"
#include "executor/unmatched_messages.h"
#include "transport/endpoint.h"
#include "transport/line.h"
#include "transport/shm/segment_layout.h"
#include "tutti/types.h"

namespace tutti {

// Sends and receives of one rank. They stand beside the order of collectives and have connections of their own, three
// to each peer: the sender announces a message, the receiver grants one that it has a matching receive for, the sender
// moves its bytes in pieces. A message that fits behind its announcement goes with it, and is received when it is
// granted. So is a short one between ranks of a host: it is early, and lies in a place of its own before it is
// announced, unless all places are taken by others. Per pair of ranks one message moves at a time; announcements may be
// granted in any order, so tags do not block each other. A send waits while kMostUnmatched earlier ones to its peer are
// announced and not granted.
//
// Any number of threads may carry on transfers at the same time. Whichever of them finds a grant or a piece of a
// message takes it for the transfer that it is for: none waits for another's thread. Never sleeps; allocates only for a
// peer's first message, and for announcements that wait for their receives behind many others.
class PointToPoint {
 public:
  enum class Connection { kAnnounce, kGrant, kData };
  static constexpr int kConnections = kPointToPointConnections;
  static constexpr std::size_t kMostUnmatched = 65536;  // announcements of a peer that wait for their receive

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
    std::size_t most_unmatched = kMostUnmatched;
  };
  PointToPoint(int ranks, Health& health, Wiring wiring);
  ~PointToPoint();

  // Gives a transfer its place among those that match the same messages, before it is carried on for the first time.
  void post(Transfer& transfer, bool sending) { (sending ? unannounced_ : unmatched_).enter(transfer); }
  // Both may be called again after kDone, and answer it again. What has been taken, or is all here, is done, also after
  // a failure.
  Progress progress_send(Transfer& transfer);
  // On kDone, transfer.peer is the sender and transfer.count what came; of a probe, transfer.type too.
  Progress progress_receive(Transfer& transfer);
  // After its peer has left and everything that it has sent was looked at: whether it can never end.
  bool is_in_vain(const Transfer& transfer, bool sending);
  // Whether a send to this peer waits because so many earlier ones have no receive yet.
  bool is_full(int peer);
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
  static constexpr std::size_t kMostEnclosed = UnmatchedMessages::kMostEnclosed;

  struct Peer {
    SpinLock lock;  // guards everything below
    std::array<Endpoint, kConnections> endpoints;
    std::size_t pieces = 0;
    bool reserved = false;
    std::uint64_t announced = 0;   // number of the last message announced to the peer
    std::size_t outstanding = 0;   // of those, not granted, also if their sends were withdrawn
    AnnouncedSends waiting;        // for their grants
    Transfer* sending = nullptr;   // granted, and its pieces are not all sent
    UnmatchedMessages unmatched;   // from the peer
    bool receiving = false;        // a message of the peer is being moved here …
    Transfer* receiver = nullptr;  // … to this receive; null: it was withdrawn
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
  bool has_room(Endpoint& endpoint);
  bool announce(Peer& peer, Transfer& transfer);
  [[gnu::noinline]] Descriptor place_early(Peer& peer, Transfer& transfer);
  void take_grants(Peer& peer, Transfer& by);
  void grant(Peer& peer, Transfer& transfer);
  void send_pieces(Peer& peer);
  static bool is_taken(Peer& peer, const Transfer& transfer);
  static void fetch_where_early(const Peer& peer, std::size_t bytes);
  void collect_announcements(Peer& peer, int looks, std::size_t bytes);
  bool match(Peer& peer, int rank, Transfer& transfer);
  void receive_pieces(Peer& peer, int looks);
  void help_others(Peer& peer, Transfer& by);
  static void note_progress(Transfer& transfer);
  Progress unfinished() const { return health_.failed() ? Progress::kFailed : Progress::kAgain; }
  void fail_for(int peer, const char* what);

  Health& health_;
  Wiring wiring_;
  std::mutex connecting_;
  std::vector<std::unique_ptr<Peer>> owned_;
  std::vector<std::atomic<Peer*>> peers_;  // by rank, the own one included; null until needed
  IssueOrder unannounced_;                 // sends
  IssueOrder unmatched_;                   // receives
  Word gave_up_{0};                        // a receive was withdrawn before it had a message
  Word first_source_{0};                   // where a receive from any source looks first: after the last one found
};

}  // namespace tutti
