#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "bootstrap/control_plane.h"
#include "bootstrap/control_scope.h"
#include "bootstrap/control_tree.h"
#include "bootstrap/gathering.h"
#include "bootstrap/introduction.h"
#include "bootstrap/listener.h"
#include "bootstrap/scope_book.h"

namespace tutti {

// What the control thread tells those who wait while ranks meet and set their communicator up. Guarded by its mutex.
struct ControlResults {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const RankTable> table;  // all ranks have met; shared with the control thread, never changed
  std::optional<Poison> failure;
  bool untold = false;  // the root could not be told of it
  std::optional<std::vector<std::vector<std::byte>>> gathered;
};

// One rank on the control thread: meets the others through the root, then keeps the tree and the communicators on it
// going: the one that met, and those that were split off since. Its listener and the table of all ranks' addresses stay
// as long as it does. Belongs to the loop's thread.
class ControlNode {
 public:
  struct Setup {
    Credentials own;  // communicator: the name under which the ranks meet; replaced by the root's assignment
    std::string name;
    std::string job;
    std::chrono::milliseconds silence{0};
    std::vector<InterfaceRecord> interfaces;
  };

  ControlNode(EventLoop& loop, Health& health, ControlResults& results, Setup setup, UniqueFd listening);
  ~ControlNode();

  // Over an authenticated connection to the root. The result is in ControlResults: a table or a failure. `waits`: hears
  // what the root says after ask_root().
  void meet(ProvenSocket root, const Introduction& introduction, std::function<void(std::string)> waits);
  // What does the root wait for?
  void ask_root();
  // In the exchanges of those who meet.
  void contribute(std::span<const std::byte> mine);
  // As Gathering says.
  int waits_for() const { return gathering_.waits_for(); }

  // The communicator that meets.
  ControlScope& met() { return *scopes_.front(); }
  // Another one of ranks of this tree, known to others by its name. `health` outlives leave() or abandon().
  ControlScope& open(Health& health, ControlScope::Self self, std::shared_ptr<const RankTable> table);

  void poison(ControlScope& scope, const Poison& poison) { book_->poison(scope, poison); }
  void compare(ControlScope& scope, const CallDescription& mine) { book_->compare(scope, mine); }
  // As ControlPlane says.
  void survey(ControlScope& scope, std::chrono::milliseconds delay, std::function<bool()> wanted,
              std::function<void(const Survey&)> done);
  void report(ControlScope& scope, const std::string& text, int blamed) { book_->report(scope, text, blamed); }
  void connect_data(ControlScope& scope, int peer);
  Survivors& survivors(ControlScope& scope) { return scope.survivors(setup_.silence); }
  // This rank leaves the communicator, which is gone here afterwards. With the last one it leaves the tree. `done` is
  // called when the other ranks can do without it, or after a bounded time.
  void leave(ControlScope& scope, std::uint64_t last_call, std::function<void()> done);
  // The same without a goodbye: the others learn that this rank gave up.
  void abandon(ControlScope& scope);

 private:
  // meeting
  void receive_from_root(FrameType type, std::span<const std::byte> payload);
  void root_ended(const std::string& trouble);
  void take_assignment(const Assignment& assignment);
  void join_tree(int parent, std::vector<SocketAddress> addresses);
  void advance_meeting();
  void take_table(std::span<const std::byte> encoded);
  void advance_gathering();
  void take_gathered(std::span<const std::byte> all);
  void fail_meeting(const Poison& failure);

  // Something on the control thread was left undone.
  void stopped(const Error& error);
  void receive_from_tree(int from, FrameType type, std::span<const std::byte> payload);
  void learn_death(const Death& death);
  void admit_visitors();
  ControlScope* scope_named(const std::array<std::byte, 16>& communicator);

  EventLoop& loop_;
  ControlResults& results_;
  Setup setup_;
  const TroubleHook trouble_;
  Listener listener_;
  std::shared_ptr<Connection> root_;
  std::function<void(std::string)> on_waits_;
  std::optional<ControlTree> tree_;
  std::optional<ScopeBook> book_;
  std::vector<std::unique_ptr<ControlScope>> scopes_;  // until this rank has left them
  std::function<void()> on_left_;

  Gathering gathering_;
  std::vector<std::byte> own_table_;  // rank 0's, until everybody is connected
  std::shared_ptr<const RankTable> table_;
  Timer retry_join_;
  Clock::time_point join_began_;
  int ready_children_ = 0;
  bool joined_ = false;
  bool told_ready_ = false;
};

}  // namespace tutti
