#include <fmt/format.h>

#include <utility>

#include "base/utf8.h"
#include "bootstrap/control_node.h"

// How a ControlNode comes to its place in the tree, and the exchanges of those who meet.
namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry(200);
constexpr milliseconds kNeighboursKnow(500);
constexpr milliseconds kConnectPatience(5000);

}  // namespace

void ControlNode::meet(ProvenSocket root, const Introduction& introduction, std::function<void(std::string)> waits) {
  on_waits_ = std::move(waits);
  root_ = std::make_shared<Connection>(loop_, std::move(root),
                                       std::max(kMaxIntroduction, RankTable::max_bytes(setup_.own.ranks)));
  root_->start([this](FrameType type, std::span<const std::byte> payload) { receive_from_root(type, payload); },
               [this](const std::string& trouble) { root_ended(trouble); });
  root_->send(FrameType::kIntroduction, introduction.encode());
}

void ControlNode::receive_from_root(FrameType type, std::span<const std::byte> payload) {
  if (type == FrameType::kAssignment && !tree_) {
    take_assignment(Assignment::decode(payload, setup_.own.ranks));
  } else if (type == FrameType::kRefused) {
    ByteReader reader(payload, "the root's answer");
    fail_meeting(Poison::decode(reader));
  } else if (type == FrameType::kWaiting) {
    ByteReader reader(payload, "the root's answer");
    const std::string waits = printable(reader.text(kMaxReasonBytes));
    reader.finish();
    on_waits_(waits);
  }
}

void ControlNode::ask_root() {
  if (!table_) root_->send(FrameType::kWaiting);
}

void ControlNode::root_ended(const std::string& trouble) {
  root_->close();
  if (table_) return;
  if (root_->refused_here()) {
    const std::lock_guard lock(results_.mutex);
    results_.untold = true;
  }
  const auto give_up = [this, trouble] {
    if (table_) return;
    fail_meeting({ErrorCode::kRemote, 0,
                  fmt::format("the root ended while the ranks were meeting{}{}: see the output of rank 0",
                              trouble.empty() ? "" : ": ", trouble)});
  };
  // A rank that is part of the tree mostly hears from its neighbours who died. But they may not know of it yet.
  if (!joined_) return give_up();
  retry_join_.arm_after(kNeighboursKnow, give_up);
}

void ControlNode::take_assignment(const Assignment& assignment) {
  setup_.own.communicator = communicator_name(assignment.nonce, setup_.job);
  met().set_communicator(setup_.own.communicator);
  own_table_ = assignment.table;
  ControlTree::Self self;
  self.own = setup_.own;
  self.silence = setup_.silence;
  self.interfaces = setup_.interfaces;
  self.on_frame = [this](int from, FrameType type, std::span<const std::byte> payload) {
    receive_from_tree(from, type, payload);
  };
  self.on_goodbye = [this](const Goodbye& goodbye, int from) { book_->learn_goodbye(goodbye, from); };
  self.on_death = [this](const Death& death) { learn_death(death); };
  self.on_neighbour = [this](int rank) { book_->introduce(rank); };
  self.on_left = [this] { std::exchange(on_left_, nullptr)(); };
  tree_.emplace(loop_, std::move(self));
  book_.emplace(loop_, *tree_, setup_.own.rank);
  book_->open(met());
  admit_visitors();
  joined_ = assignment.parent < 0;
  join_began_ = Clock::now();
  if (!joined_) join_tree(assignment.parent, usable_addresses(assignment.parent_addresses, assignment.parent_port));
  advance_meeting();
}

void ControlNode::join_tree(int parent, std::vector<SocketAddress> addresses) {
  tree_->join(parent, addresses, kConnectPatience, [this, parent, addresses](const std::string& trouble) {
    if (trouble.empty()) {
      joined_ = true;
      root_->send(FrameType::kJoined);
      return advance_meeting();
    }
    if (Clock::now() - join_began_ < kConnectPatience) {
      retry_join_.arm_after(kRetry, [this, parent, addresses] { join_tree(parent, addresses); });
      return;
    }
    const Poison failure{
        ErrorCode::kSystem, parent,
        fmt::format(
            "rank {} could not connect to rank {}: {}. TUTTI_SOCKET_IFNAME chooses the network, TUTTI_PORTS the "
            "ports that ranks listen on and a firewall must let in",
            setup_.own.rank, parent, trouble)};
    fail_meeting(failure);
  });
}

// Connected to its parent and hearing that everybody below is connected, a rank says so; the table comes back. The root
// is told too, so that it can name who is in the way.
void ControlNode::advance_meeting() {
  if (told_ready_ || !joined_ || ready_children_ < tree_children(setup_.own.rank, setup_.own.ranks)) return;
  told_ready_ = true;
  root_->send(FrameType::kReady);
  if (setup_.own.rank == 0) return take_table(std::exchange(own_table_, {}));
  tree_->send_to_parent(make_frame(FrameType::kReady));
}

void ControlNode::take_table(std::span<const std::byte> encoded) {
  ByteReader reader(encoded, "the table of ranks");
  table_ = std::make_shared<const RankTable>(RankTable::decode(reader, setup_.own.ranks));
  tree_->set_table(table_);
  met().set_table(table_);
  tree_->send_to_children(make_frame(FrameType::kTable, encoded));
  root_->send(FrameType::kMet);
  root_->linger();
  const std::lock_guard lock(results_.mutex);
  results_.table = table_;
  results_.changed.notify_all();
}

void ControlNode::contribute(std::span<const std::byte> mine) {
  gathering_.contribute(mine);
  advance_gathering();
}

void ControlNode::advance_gathering() {
  const auto message = gathering_.ready();
  if (!message) return;
  if (setup_.own.rank == 0) return take_gathered(*message);
  tree_->send_to_parent(make_frame(FrameType::kGatherUp, *message));
}

void ControlNode::take_gathered(std::span<const std::byte> all) {
  tree_->send_to_children(make_frame(FrameType::kGatherDown, all));
  auto parts = gathering_.finish(all);
  const std::lock_guard lock(results_.mutex);
  results_.gathered = std::move(parts);
  results_.changed.notify_all();
}

void ControlNode::fail_meeting(const Poison& failure) {
  {
    const std::lock_guard lock(results_.mutex);
    if (!results_.failure) results_.failure = failure;
    results_.changed.notify_all();
  }
  // What this rank heard from its neighbours; otherwise the others would take it for the cause when it ends.
  if (root_ && !table_) root_->send(FrameType::kRefused, failure.encode());
}

}  // namespace tutti
