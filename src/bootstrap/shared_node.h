#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bootstrap/control_node.h"
#include "bootstrap/membership.h"
#include "bootstrap/process.h"
#include "bootstrap/reach_root.h"
#include "bootstrap/root_server.h"

namespace tutti {

// A ControlNode as other threads see it: shared by the control planes of all communicators on its tree, and gone,
// sockets included, with the last. Any thread may call anything, but must not drop the last share on the control
// thread.
class SharedNode {
 public:
  // Meets the other ranks; see ControlPlane::meet(). `health`: of the communicator that meets.
  SharedNode(const Membership& membership, const Config& config, Health& health);
  // In a forked child nothing is touched: the thread that owns the node is in the parent.
  ~SharedNode();

  // Runs it on the control thread; post() does not wait. Not in a forked child.
  void post(std::function<void(ControlNode&)> work);
  void call(const std::function<void(ControlNode&)>& work);

  // Whom this rank waits for in an exchange; -1: nobody. On the control thread.
  int waits_for() const { return node_->waits_for(); }

  // They are on one host, and listen on its loopback interface.
  bool loopback_only() const { return loopback_only_; }
  // Host, process and addresses of all ranks of the tree.
  const std::shared_ptr<const RankTable>& table() const { return table_; }

  // Exchanges of those who met. Blocks; throws Error(kTimeout), or why the meeting failed, and returns nothing when
  // `health` failed.
  std::optional<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine, const Health& health,
                                                              Deadline deadline);

 private:
  void meet(const Membership& given, const Config& config, Health& health);
  // Up to the moment when the root knows this rank.
  void introduce(Membership& membership, const Config& config, Health& health, Deadline deadline, MeetingWatch& watch);
  void stay_for_late_comers(const Membership& membership, const Error& error, Deadline deadline);
  void wait_until_met(const Membership& membership, Deadline deadline);
  void close();

  // Shared with all other nodes of the process: the last one ends the control thread.
  std::shared_ptr<Process> process_;
  std::unique_ptr<RootServer> root_;
  ControlResults results_;
  std::unique_ptr<ControlNode> node_;  // made, used and destroyed on the control thread
  std::shared_ptr<const RankTable> table_;
  bool loopback_only_ = false;
};

}  // namespace tutti
