#include "bootstrap/control_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "bootstrap/gathering.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

// Goodbyes come in crowds: they are collected for a moment and passed on together.
constexpr milliseconds kSpreadDelay(5);
// A rank whose parent left will mostly leave, too, and then needs no other.
constexpr milliseconds kSearchDelay(20);
constexpr milliseconds kSearchPatience(3000);
constexpr milliseconds kLeavePatience(2000);
constexpr std::size_t kComparisonsKept = 32;

milliseconds beat_interval(milliseconds silence) {
  return std::clamp(silence / 6, milliseconds(50), milliseconds(5000));
}

}  // namespace

ControlTree::ControlTree(EventLoop& loop, Health& health, Self self)
    : loop_(loop),
      health_(health),
      self_(std::move(self)),
      spread_(loop),
      search_(loop),
      heartbeat_(loop),
      leave_deadline_(loop) {
  next_beat_ = Clock::now() + beat_interval(self_.silence);
  heartbeat_.arm(next_beat_, [this] { beat(); });
}

ControlTree::~ControlTree() {
  if (dialer_) dialer_->cancel();
  for (auto& [rank, neighbour] : neighbours_) neighbour.connection->linger();
}

void ControlTree::join(int parent, std::vector<SocketAddress> addresses, milliseconds patience,
                       std::function<void(const std::string&)> done) {
  const Hello hello{Purpose::kTree, static_cast<std::uint32_t>(self_.own.rank), static_cast<std::uint32_t>(parent),
                    static_cast<std::uint32_t>(self_.own.ranks), self_.own.communicator};
  dialer_ = Dialer::start(loop_, connect_order(addresses, self_.interfaces), hello, self_.own.secret, patience,
                          [this, parent, done = std::move(done)](Dialer::Outcome outcome) {
                            const std::shared_ptr<Dialer> over = std::move(dialer_);
                            if (outcome.socket) add(parent, std::move(outcome.socket), Role::kParent);
                            done(outcome.trouble);
                          });
}

void ControlTree::adopt(int rank, ProvenSocket socket) {
  // Parents have lower numbers than their children, so there is never a circle.
  if (!left_ && rank > self_.own.rank && rank < self_.own.ranks) add(rank, std::move(socket), Role::kChild);
}

void ControlTree::add(int rank, ProvenSocket socket, Role role) {
  if (const auto old = neighbours_.find(rank); old != neighbours_.end()) {
    // It connected twice because it did not hear that the first attempt had succeeded.
    old->second.connection->close();
    neighbours_.erase(old);
  }
  const std::size_t limit = std::max({RankTable::max_bytes(self_.own.ranks), TreeState::max_bytes(self_.own.ranks),
                                      gather_max_bytes(self_.own.ranks)});
  const auto connection = std::make_shared<Connection>(loop_, std::move(socket), limit);
  neighbours_[rank] = {connection, role, false, false};
  if (role == Role::kParent) parent_ = rank;
  connection->start([this, rank](FrameType type, std::span<const std::byte> payload) { receive(rank, type, payload); },
                    [this, rank](const std::string& trouble) { ended(rank, trouble); });
  connection->send(FrameType::kState, state().encode());
  for (const Comparison& comparison : comparisons_) connection->send(FrameType::kCompare, comparison.encode());
}

void ControlTree::receive(int rank, FrameType type, std::span<const std::byte> payload) {
  switch (type) {
    case FrameType::kHeartbeat:
      return;
    case FrameType::kState:
      neighbours_.at(rank).introduced = true;
      learn(TreeState::decode(payload, self_.own.ranks), rank);
      // A new parent, and not about to leave, too: the former one need not relay any more.
      if (searching_ && rank == parent_) {
        if (has_left(rank)) return orphaned();
        searching_ = false;
        release_former_parents();
      }
      return;
    case FrameType::kGoodbye:
      return learn(TreeState::decode(payload, self_.own.ranks), rank);
    case FrameType::kPoison: {
      ByteReader reader(payload, "the failure of a communicator");
      return learn_poison(Poison::decode(reader), rank);
    }
    case FrameType::kRelease:
      neighbours_.at(rank).released = true;
      return;
    case FrameType::kCompare:
      return learn_comparison(Comparison::decode(payload, self_.own.ranks), rank);
    default:
      self_.on_frame(rank, type, payload);
  }
}

void ControlTree::ended(int rank, const std::string& trouble) {
  const auto found = neighbours_.find(rank);
  if (found == neighbours_.end()) return;
  const Neighbour neighbour = std::move(found->second);
  neighbours_.erase(found);
  // An end is the answer to this rank's own, or it was announced; otherwise it is a death.
  const bool expected =
      !neighbour.introduced || neighbour.connection->finishing() || neighbour.released || has_left(rank);
  neighbour.connection->close();
  if (rank == parent_) parent_ = kNobody;
  if (!poison_ && !expected) {
    const std::string reason =
        fmt::format("{} of communicator \"{}\" died: its control connection to rank {} ended{}{}", describe(rank),
                    self_.name, self_.own.rank, trouble.empty() ? "" : ": ", trouble);
    learn_poison({ErrorCode::kRemote, rank, reason}, kNobody);
  }
  // Nobody relays any more, or the new parent was gone already: another one is needed now.
  if (searching_ && !dialer_ && parent_ == kNobody && neighbour.role != Role::kChild) find_parent();
  if (leaving_) advance_leave();
}

void ControlTree::send_to_parent(const Frame& frame) {
  if (parent_ != kNobody) neighbours_.at(parent_).connection->send(frame);
}

void ControlTree::send_to_children(const Frame& frame) {
  for (auto& [rank, neighbour] : neighbours_) {
    if (neighbour.role == Role::kChild) neighbour.connection->send(frame);
  }
}

void ControlTree::flood(const Frame& frame, int except) {
  for (auto& [rank, neighbour] : neighbours_) {
    if (rank != except) neighbour.connection->send(frame);
  }
}

TreeState ControlTree::state() const {
  TreeState known;
  for (int rank = 0; rank < self_.own.ranks; ++rank) {
    if (has_left(rank)) known.left.emplace_back(rank, health_.left_after(rank));
  }
  known.poison = poison_;
  return known;
}

void ControlTree::learn(const TreeState& news, int from) {
  if (news.poison) learn_poison(*news.poison, from);
  for (const auto& [rank, last_call] : news.left) learn_goodbye(rank, last_call, from);
}

void ControlTree::learn_goodbye(int rank, std::uint64_t last_call, int from) {
  if (has_left(rank)) return;
  health_.leave(rank, last_call);
  news_.emplace_back(rank, from);
  if (news_.size() == 1) {
    spread_.arm_after(kSpreadDelay, [this] { spread_goodbyes(); });
  }
  if (rank == parent_) orphaned();
}

void ControlTree::spread_goodbyes() {
  for (auto& [to, neighbour] : neighbours_) {
    TreeState news;
    for (const auto& [rank, from] : news_) {
      if (from != to) news.left.emplace_back(rank, health_.left_after(rank));
    }
    if (!news.left.empty()) neighbour.connection->send(FrameType::kGoodbye, news.encode());
  }
  news_.clear();
}

void ControlTree::learn_poison(Poison poison, int from) {
  if (poison_) return;
  poison_ = std::move(poison);
  if (health_.fail(poison_->code, poison_->reason, poison_->peer)) {
    log_info("communicator \"{}\" rank {}: {}", self_.name, self_.own.rank, poison_->reason);
  }
  flood(make_frame(FrameType::kPoison, poison_->encode()), from);
  search_.cancel();
  if (searching_ && dialer_) {
    dialer_->cancel();
    dialer_.reset();
  }
  searching_ = false;
  self_.on_failure();
  if (leaving_) advance_leave();
}

void ControlTree::compare(const CallDescription& mine) {
  for (const Comparison& known : comparisons_) {
    if (known.call.sequence == mine.sequence && known.call.signature != mine.signature) {
      return check_comparison(known, mine);
    }
  }
  learn_comparison({self_.own.rank, mine}, kNobody);
}

// What one rank asks is everybody's question: a rank that would ask the same need not, and nobody passes it on twice.
void ControlTree::learn_comparison(const Comparison& comparison, int from) {
  for (const Comparison& known : comparisons_) {
    if (known.call.sequence == comparison.call.sequence && known.call.signature == comparison.call.signature) return;
  }
  comparisons_.push_back(comparison);
  if (comparisons_.size() > kComparisonsKept) comparisons_.pop_front();
  flood(make_frame(FrameType::kCompare, comparison.encode()), from);
  CallDescription mine;
  if (from != kNobody && describe_call_ && describe_call_(comparison.call.sequence, mine)) {
    check_comparison(comparison, mine);
  }
}

void ControlTree::check_comparison(const Comparison& theirs, const CallDescription& mine) {
  if (mine.signature == theirs.call.signature) return;
  poison(ErrorCode::kMismatch,
         fmt::format("{} called \"{}\" as #{} of communicator \"{}\" where {} called \"{}\": all ranks must make the "
                     "same calls in the same order",
                     describe(self_.own.rank), mine.text, mine.sequence, self_.name, describe(theirs.rank),
                     theirs.call.text),
         theirs.rank);
}

void ControlTree::orphaned() {
  neighbours_.at(parent_).role = Role::kFormerParent;
  parent_ = kNobody;
  if (poison_ || leaving_) return;
  searching_ = true;
  tried_.clear();
  search_.arm_after(kSearchDelay, [this] { find_parent(); });
}

void ControlTree::find_parent() {
  search_.cancel();
  const int candidate = next_candidate();
  if (candidate == kNobody) {
    searching_ = false;  // this rank is the lowest that is left: the root of the tree
    return release_former_parents();
  }
  tried_.insert(candidate);
  join(candidate, table_->addresses(candidate), kSearchPatience, [this](const std::string& trouble) {
    if (searching_ && !trouble.empty()) find_parent();
  });
}

// The nearest ancestor that is left; when there is none, the parent in a tree of those that are left; then any other
// with a lower number.
int ControlTree::next_candidate() const {
  const auto possible = [this](int rank) { return !has_left(rank) && !tried_.contains(rank); };
  for (int rank = tree_parent(self_.own.rank); rank >= 0; rank = tree_parent(rank)) {
    if (possible(rank)) return rank;
  }
  std::vector<int> lower;
  for (int rank = 0; rank < self_.own.rank; ++rank) {
    if (!has_left(rank)) lower.push_back(rank);
  }
  if (lower.empty()) return kNobody;
  const int parent = lower[static_cast<std::size_t>(tree_parent(static_cast<int>(lower.size())))];
  if (possible(parent)) return parent;
  const auto other = std::find_if(lower.begin(), lower.end(), possible);
  return other == lower.end() ? kNobody : *other;
}

void ControlTree::release_former_parents() {
  for (auto& [rank, neighbour] : neighbours_) {
    if (neighbour.role != Role::kFormerParent) continue;
    neighbour.connection->send(FrameType::kRelease);
    neighbour.connection->finish();
  }
}

void ControlTree::beat() {
  const milliseconds interval = beat_interval(self_.silence);
  const Clock::time_point now = Clock::now();
  // When this thread itself did not run, the signs of life wait in the sockets.
  const bool overslept = now > next_beat_ + interval;
  const Frame frame = make_frame(FrameType::kHeartbeat);
  std::vector<int> silent;
  for (auto& [rank, neighbour] : neighbours_) {
    if (overslept) neighbour.connection->forget_silence();
    if (now - neighbour.connection->last_heard() > self_.silence) silent.push_back(rank);
    neighbour.connection->send(frame);
  }
  const std::string trouble = fmt::format("nothing was heard of it for {:.1f} s (TUTTI_SILENCE)",
                                          static_cast<double>(self_.silence.count()) / 1000);
  for (const int rank : silent) ended(rank, trouble);
  next_beat_ = now + interval;
  heartbeat_.arm(next_beat_, [this] { beat(); });
}

void ControlTree::leave(std::uint64_t last_call) {
  leaving_ = true;
  search_.cancel();
  if (dialer_) dialer_->cancel();
  dialer_.reset();
  searching_ = false;
  health_.leave(self_.own.rank, last_call);
  news_.emplace_back(self_.own.rank, kNobody);
  spread_goodbyes();
  leave_deadline_.arm_after(kLeavePatience, [this] { finish_leave(); });
  advance_leave();
}

// A rank that leaves relays until its children have left, too, or found another parent; then it closes towards its
// parent, which answers in kind.
void ControlTree::advance_leave() {
  if (poison_ || neighbours_.empty()) return finish_leave();
  const bool needed = std::any_of(neighbours_.begin(), neighbours_.end(),
                                  [](const auto& entry) { return entry.second.role == Role::kChild; });
  if (needed) return;
  spread_goodbyes();
  for (auto& [rank, neighbour] : neighbours_) neighbour.connection->finish();
}

void ControlTree::finish_leave() {
  if (left_) return;
  left_ = true;
  leave_deadline_.cancel();
  for (auto& [rank, neighbour] : neighbours_) neighbour.connection->linger();
  neighbours_.clear();
  parent_ = kNobody;
  self_.on_left();
}

std::string ControlTree::describe(int rank) const {
  return table_ ? table_->describe(rank) : fmt::format("rank {}", rank);
}

}  // namespace tutti
