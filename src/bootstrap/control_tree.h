#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/health.h"
#include "base/net/interfaces.h"
#include "bootstrap/connection.h"
#include "bootstrap/dialer.h"
#include "bootstrap/rank_table.h"
#include "bootstrap/tree_messages.h"

namespace tutti {

// One rank's neighbours in the tree of control connections, and what is spread along it: failures, goodbyes, questions
// about calls, signs of life. It stays one tree while ranks leave: whoever loses its parent finds another among the
// ranks below its own number, and the parent that left relays until it has. Belongs to the loop's thread.
class ControlTree {
 public:
  // Who this is and what it calls back. The callbacks run on the loop's thread and must not destroy the tree.
  struct Self {
    Credentials own;   // for Purpose::kTree
    std::string name;  // of the communicator, for messages
    std::chrono::milliseconds silence{0};
    std::vector<InterfaceRecord> interfaces;
    std::function<void(int from, FrameType, std::span<const std::byte>)> on_frame;  // what is not the tree's own
    std::function<void()> on_failure;
    std::function<void()> on_left;
  };

  ControlTree(EventLoop& loop, Health& health, Self self);
  ~ControlTree();

  // Towards the first parent, whose addresses the root told; `done` gets "" or what went wrong.
  void join(int parent, std::vector<SocketAddress> addresses, std::chrono::milliseconds patience,
            std::function<void(const std::string& trouble)> done);
  // A rank with a higher number connected and was let in.
  void adopt(int rank, ProvenSocket socket);
  void set_table(std::shared_ptr<const RankTable> table) { table_ = std::move(table); }
  void set_describe_call(DescribeCall describe) { describe_call_ = std::move(describe); }

  void send_to_parent(const Frame& frame);
  void send_to_children(const Frame& frame);

  void poison(ErrorCode code, const std::string& reason, int peer) { learn_poison({code, peer, reason}, kNobody); }
  bool poisoned() const { return poison_.has_value(); }
  void compare(const CallDescription& mine);
  // Says goodbye and calls on_left when the neighbours can do without this rank, or after a bounded time.
  void leave(std::uint64_t last_call);

 private:
  static constexpr int kNobody = -1;
  enum class Role { kParent, kFormerParent, kChild };
  struct Neighbour {
    std::shared_ptr<Connection> connection;
    Role role = Role::kChild;
    bool introduced = false;  // it sent its state: until then it may have changed its mind and not know that it is here
    bool released = false;    // this child said that it has another parent
  };

  void add(int rank, ProvenSocket socket, Role role);
  void receive(int rank, FrameType type, std::span<const std::byte> payload);
  void ended(int rank, const std::string& trouble);
  void flood(const Frame& frame, int except);
  bool has_left(int rank) const { return health_.left_after(rank) != Health::kStillHere; }

  TreeState state() const;
  void learn(const TreeState& news, int from);
  void learn_goodbye(int rank, std::uint64_t last_call, int from);
  void learn_poison(Poison poison, int from);
  void learn_comparison(const Comparison& comparison, int from);
  void check_comparison(const Comparison& theirs, const CallDescription& mine);
  void spread_goodbyes();

  void orphaned();
  void find_parent();
  int next_candidate() const;
  void release_former_parents();

  void beat();
  void advance_leave();
  void finish_leave();
  std::string describe(int rank) const;

  EventLoop& loop_;
  Health& health_;
  const Self self_;
  std::shared_ptr<const RankTable> table_;  // shared with the control plane, whose callers read it
  std::map<int, Neighbour> neighbours_;
  int parent_ = kNobody;
  std::optional<Poison> poison_;
  DescribeCall describe_call_;
  std::deque<Comparison> comparisons_;     // the latest, to be known again and told to new neighbours
  std::vector<std::pair<int, int>> news_;  // ranks that left, and who said so: not passed on yet
  std::shared_ptr<Dialer> dialer_;
  std::set<int> tried_;  // as parents, in vain
  Timer spread_;
  Timer search_;
  Timer heartbeat_;
  Timer leave_deadline_;
  Deadline next_beat_;
  bool searching_ = false;
  bool leaving_ = false;
  bool left_ = false;
};

}  // namespace tutti
