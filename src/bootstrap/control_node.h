#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "bootstrap/control_plane.h"
#include "bootstrap/control_tree.h"
#include "bootstrap/gathering.h"
#include "bootstrap/introduction.h"
#include "bootstrap/listener.h"

namespace tutti {

// What the control thread tells those who wait in calls of one control plane. Guarded by its mutex.
struct ControlResults {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const RankTable> table;  // all ranks have met; shared with the control thread, never changed
  std::optional<Poison> failure;
  std::optional<std::vector<std::vector<std::byte>>> gathered;
  bool left = false;
};

// One rank of a communicator on the control thread: meets the others through the root, then keeps the tree, the
// exchanges and the data connections going. Belongs to the loop's thread.
class ControlNode {
 public:
  struct Setup {
    Credentials own;  // communicator: the name under which the ranks meet; replaced by the root's assignment
    std::string name;
    std::string job;
    std::chrono::milliseconds silence{0};
    Deadline deadline;
    std::vector<InterfaceRecord> interfaces;
  };

  ControlNode(EventLoop& loop, Health& health, ControlResults& results, Setup setup, UniqueFd listening);
  ~ControlNode();

  // Over an authenticated connection to the root. The result is in ControlResults: a table or a failure.
  void meet(ProvenSocket root, const Introduction& introduction);

  void contribute(std::span<const std::byte> mine);
  void poison(ErrorCode code, const std::string& reason, int peer) { tree_->poison(code, reason, peer); }
  void compare(const CallDescription& mine) { tree_->compare(mine); }
  void set_describe_call(DescribeCall describe) { tree_->set_describe_call(std::move(describe)); }
  void set_data_handler(ControlPlane::DataHandler handler);
  void connect_data(int peer);
  void leave(std::uint64_t last_call) { tree_->leave(last_call); }
  // Without a goodbye: the others learn that this rank gave up.
  void abandon();

  // Known once all have met: of this meeting only, behind every later key.
  const Credentials& credentials() const { return setup_.own; }

 private:
  void receive_from_root(FrameType type, std::span<const std::byte> payload);
  void root_ended(const std::string& trouble);
  void take_assignment(const Assignment& assignment);
  void join_tree(int parent, std::vector<SocketAddress> addresses);
  void receive_from_tree(int from, FrameType type, std::span<const std::byte> payload);
  void advance_meeting();
  void take_table(std::span<const std::byte> encoded);
  void advance_gathering();
  void take_gathered(std::span<const std::byte> all);
  void dial_data(int peer);
  void fail(const Poison& failure);

  EventLoop& loop_;
  Health& health_;
  ControlResults& results_;
  Setup setup_;
  Listener listener_;
  std::shared_ptr<Connection> root_;
  std::optional<ControlTree> tree_;
  Gathering gathering_;
  std::vector<std::byte> own_table_;  // rank 0's, until everybody is connected
  std::shared_ptr<const RankTable> table_;
  Timer retry_join_;
  Clock::time_point join_began_;
  int ready_children_ = 0;
  bool joined_ = false;
  bool told_ready_ = false;

  ControlPlane::DataHandler data_handler_;
  struct DataSocket {
    int peer;
    UniqueFd socket;
  };
  std::vector<DataSocket> early_data_;  // came before there was a handler
  struct DataDial {
    std::shared_ptr<Dialer> dialer;
    Timer retry;
    Clock::time_point began;
  };
  std::map<int, DataDial> data_dials_;
};

}  // namespace tutti
