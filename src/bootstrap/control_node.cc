#include "bootstrap/control_node.h"

#include <fmt/format.h>

#include "base/log.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry(200);
// Long enough for a peer's death to be noticed first, and to be the reason that everybody gets.
constexpr milliseconds kConnectPatience(5000);
constexpr std::size_t kEarlyData = 4096;

Hello hello_to(int peer, Purpose purpose, const Credentials& own) {
  return {purpose, static_cast<std::uint32_t>(own.rank), static_cast<std::uint32_t>(peer),
          static_cast<std::uint32_t>(own.ranks), own.communicator};
}

}  // namespace

ControlNode::ControlNode(EventLoop& loop, Health& health, ControlResults& results, Setup setup, UniqueFd listening)
    : loop_(loop),
      health_(health),
      results_(results),
      setup_(std::move(setup)),
      listener_(loop, std::move(listening)),
      gathering_(setup_.own.rank, setup_.own.ranks),
      retry_join_(loop) {}

ControlNode::~ControlNode() {
  if (root_) root_->linger();
  for (auto& [peer, dial] : data_dials_) {
    if (dial.dialer) dial.dialer->cancel();
  }
}

void ControlNode::meet(ProvenSocket root, const Introduction& introduction) {
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
    fail(Poison::decode(reader));
  }
}

void ControlNode::root_ended(const std::string& trouble) {
  root_->close();
  // Once this rank is part of the tree, the tree tells the living from the dead.
  if (joined_) return;
  fail({ErrorCode::kRemote, 0,
        fmt::format("the root ended while the ranks were meeting{}{}: see the output of rank 0",
                    trouble.empty() ? "" : ": ", trouble)});
}

void ControlNode::take_assignment(const Assignment& assignment) {
  setup_.own.communicator = communicator_name(assignment.nonce, setup_.job);
  own_table_ = assignment.table;
  ControlTree::Self self;
  self.own = setup_.own;
  self.name = setup_.name;
  self.silence = setup_.silence;
  self.interfaces = setup_.interfaces;
  self.on_frame = [this](int from, FrameType type, std::span<const std::byte> payload) {
    receive_from_tree(from, type, payload);
  };
  self.on_failure = [this] {
    const Error reason = health_.reason();
    fail({reason.code(), reason.peer(), reason.what()});
  };
  self.on_left = [this] {
    const std::lock_guard lock(results_.mutex);
    results_.left = true;
    results_.changed.notify_all();
  };
  tree_.emplace(loop_, health_, std::move(self));
  listener_.admit(
      setup_.own,
      [](const Hello& hello) {
        return hello.purpose == Purpose::kMeet ? "ranks meet at the root's port, and this is not it" : "";
      },
      [this](const Hello& hello, ProvenSocket socket) {
        const int peer = static_cast<int>(hello.client_rank);
        if (hello.purpose == Purpose::kTree) return tree_->adopt(peer, std::move(socket));
        if (peer < 0 || peer >= setup_.own.ranks || peer == setup_.own.rank) return;
        if (data_handler_) return data_handler_(peer, std::move(socket.fd), false);
        if (early_data_.size() < kEarlyData) early_data_.push_back({peer, std::move(socket.fd)});
      });
  joined_ = assignment.parent < 0;
  join_began_ = Clock::now();
  if (!joined_) join_tree(assignment.parent, usable_addresses(assignment.parent_addresses, assignment.parent_port));
  advance_meeting();
}

void ControlNode::join_tree(int parent, std::vector<SocketAddress> addresses) {
  tree_->join(parent, addresses, kConnectPatience, [this, parent, addresses](const std::string& trouble) {
    if (trouble.empty()) {
      joined_ = true;
      return advance_meeting();
    }
    if (Clock::now() - join_began_ < kConnectPatience) {
      retry_join_.arm_after(kRetry, [this, parent, addresses] { join_tree(parent, addresses); });
      return;
    }
    const Poison failure{
        ErrorCode::kSystem, parent,
        fmt::format("rank {} could not connect to rank {}: {}. TUTTI_SOCKET_IFNAME chooses the network",
                    setup_.own.rank, parent, trouble)};
    root_->send(FrameType::kRefused, failure.encode());
    fail(failure);
  });
}

void ControlNode::receive_from_tree(int from, FrameType type, std::span<const std::byte> payload) {
  switch (type) {
    case FrameType::kReady:
      ++ready_children_;
      return advance_meeting();
    case FrameType::kTable:
      if (!table_) take_table(payload);
      return;
    case FrameType::kGatherUp:
      gathering_.take(payload);
      return advance_gathering();
    case FrameType::kGatherDown:
      return take_gathered(payload);
    default:
      log_debug("rank {} sent a message of type {} that has no place here", from, static_cast<int>(type));
  }
}

// Connected to its parent and hearing that everybody below is connected, a rank says so; the table comes back.
void ControlNode::advance_meeting() {
  if (told_ready_ || !joined_ || ready_children_ < tree_children(setup_.own.rank, setup_.own.ranks)) return;
  told_ready_ = true;
  if (setup_.own.rank == 0) return take_table(std::exchange(own_table_, {}));
  tree_->send_to_parent(make_frame(FrameType::kReady));
}

void ControlNode::take_table(std::span<const std::byte> encoded) {
  ByteReader reader(encoded, "the table of ranks");
  table_ = std::make_shared<const RankTable>(RankTable::decode(reader, setup_.own.ranks));
  tree_->set_table(table_);
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

void ControlNode::set_data_handler(ControlPlane::DataHandler handler) {
  data_handler_ = std::move(handler);
  for (DataSocket& early : std::exchange(early_data_, {})) data_handler_(early.peer, std::move(early.socket), false);
}

void ControlNode::connect_data(int peer) {
  const auto [dial, added] = data_dials_.try_emplace(peer, DataDial{nullptr, Timer(loop_), Clock::now()});
  if (added) dial_data(peer);
}

void ControlNode::dial_data(int peer) {
  data_dials_.at(peer).dialer = Dialer::start(
      loop_, connect_order(table_->addresses(peer), setup_.interfaces), hello_to(peer, Purpose::kData, setup_.own),
      setup_.own.secret, kConnectPatience, [this, peer](Dialer::Outcome outcome) {
        DataDial& dial = data_dials_.at(peer);
        const std::shared_ptr<Dialer> over = std::move(dial.dialer);
        if (outcome.socket) {
          data_dials_.erase(peer);
          if (data_handler_) data_handler_(peer, std::move(outcome.socket.fd), true);
          return;
        }
        if (tree_->poisoned()) return;
        if (Clock::now() - dial.began < kConnectPatience) {
          dial.retry.arm_after(kRetry, [this, peer] { dial_data(peer); });
          return;
        }
        poison(
            ErrorCode::kSystem,
            fmt::format("{} of communicator \"{}\" cannot connect to {}: {}. TUTTI_SOCKET_IFNAME chooses the network",
                        table_->describe(setup_.own.rank), setup_.name, table_->describe(peer), outcome.trouble),
            peer);
      });
}

void ControlNode::abandon() {
  if (!tree_) return;
  const std::string who = table_ ? table_->describe(setup_.own.rank) : fmt::format("rank {}", setup_.own.rank);
  poison(ErrorCode::kRemote,
         fmt::format("{} gave communicator \"{}\" up without a goodbye: see its output", who, setup_.name),
         setup_.own.rank);
}

void ControlNode::fail(const Poison& failure) {
  const std::lock_guard lock(results_.mutex);
  if (!results_.failure) results_.failure = failure;
  results_.changed.notify_all();
}

}  // namespace tutti
