#include "bootstrap/control_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "bootstrap/gathering.h"
#include "bootstrap/survey_messages.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

// Goodbyes come in crowds: they are collected for a moment and passed on together.
constexpr milliseconds kSpreadDelay(5);
// A rank whose parent left will mostly leave, too, and then needs no other.
constexpr milliseconds kSearchDelay(20);
constexpr milliseconds kSearchPatience(3000);
constexpr milliseconds kSearchPause(250);  // after all were asked in vain
constexpr milliseconds kLeavePatience(2000);

}  // namespace

ControlTree::ControlTree(EventLoop& loop, Self self)
    : loop_(loop),
      self_(std::move(self)),
      presence_(static_cast<std::size_t>(self_.own.ranks), Presence::kHere),
      roll_call_(loop, {self_.silence,
                        [this](int rank, Dialer::Done done) {
                          return dial(rank, table_->addresses(rank), kSearchPatience, std::move(done));
                        },
                        [this] { return missing(); },
                        [this](int rank) { return is_here(rank) && !neighbours_.contains(rank); },
                        [this](int rank, const std::string& trouble) {
                          learn_death({rank, self_.own.rank, trouble}, kNobody);
                        }}),
      spread_(loop),
      search_(loop),
      heartbeat_(loop, self_.silence),
      leave_deadline_(loop) {
  heartbeat_.arm([this](bool overslept) { beat(overslept); });
}

ControlTree::~ControlTree() {
  if (dialer_) dialer_->cancel();
  for (auto& [rank, neighbour] : neighbours_) neighbour.connection->linger();
}

std::shared_ptr<Dialer> ControlTree::dial(int rank, std::vector<SocketAddress> addresses, milliseconds patience,
                                          Dialer::Done done) {
  const Hello hello{Purpose::kTree, static_cast<std::uint32_t>(self_.own.rank), static_cast<std::uint32_t>(rank),
                    static_cast<std::uint32_t>(self_.own.ranks), self_.own.communicator};
  return Dialer::start(loop_, connect_order(addresses, self_.interfaces), hello, self_.own.secret, patience,
                       std::move(done));
}

void ControlTree::join(int parent, std::vector<SocketAddress> addresses, milliseconds patience,
                       std::function<void(const std::string&)> done) {
  dialer_ =
      dial(parent, std::move(addresses), patience, [this, parent, done = std::move(done)](Dialer::Outcome outcome) {
        const std::shared_ptr<Dialer> over = std::move(dialer_);
        if (searching_ && !deaths_.empty()) roll_call_.note(parent, outcome);
        if (outcome.socket) add(parent, std::move(outcome.socket), Role::kParent);
        done(outcome.trouble);
      });
}

void ControlTree::adopt(int rank, ProvenSocket socket) {
  // Parents have lower numbers than their children, so there is never a circle.
  if (left_ || rank <= self_.own.rank || rank >= self_.own.ranks) return;
  if (presence_[static_cast<std::size_t>(rank)] == Presence::kDead) {
    // It lives, but the others went on without it.
    const auto death = std::ranges::find(deaths_, rank, &Death::rank);
    const auto connection =
        std::make_shared<Connection>(loop_, std::move(socket), TreeNews::max_bytes(self_.own.ranks));
    connection->start([](FrameType, std::span<const std::byte>) {}, [](const std::string&) {});
    connection->send(FrameType::kDeath, death->encode());
    return connection->linger();
  }
  add(rank, std::move(socket), Role::kChild);
}

void ControlTree::add(int rank, ProvenSocket socket, Role role) {
  if (const auto old = neighbours_.find(rank); old != neighbours_.end()) {
    // It connected twice because it did not hear that the first attempt had succeeded.
    old->second.connection->close();
    neighbours_.erase(old);
  }
  const std::size_t limit = std::max({RankTable::max_bytes(self_.own.ranks), TreeNews::max_bytes(self_.own.ranks),
                                      gather_max_bytes(self_.own.ranks), SurveyAnswer::max_bytes(self_.own.ranks)});
  const auto connection = std::make_shared<Connection>(loop_, std::move(socket), limit);
  neighbours_[rank] = {connection, role, false, false};
  if (role == Role::kParent) parent_ = rank;
  connection->start([this, rank](FrameType type, std::span<const std::byte> payload) { receive(rank, type, payload); },
                    [this, rank](const std::string& trouble) { ended(rank, trouble); });
  for (const Death& death : deaths_) connection->send(FrameType::kDeath, death.encode());
  self_.on_neighbour(rank);
  TreeNews departures;
  for (int other = 0; other < self_.own.ranks; ++other) {
    if (presence_[static_cast<std::size_t>(other)] == Presence::kDeparted) departures.departed.push_back(other);
  }
  connection->send(FrameType::kState, departures.encode());
}

void ControlTree::receive(int rank, FrameType type, std::span<const std::byte> payload) {
  switch (type) {
    case FrameType::kHeartbeat:
      return;
    case FrameType::kState:
      neighbours_.at(rank).introduced = true;
      learn(TreeNews::decode(payload, self_.own.ranks), rank);
      // A new parent, and not about to leave, too: the former one need not relay any more.
      if (searching_ && rank == parent_) {
        if (!is_here(rank)) return orphaned();
        searching_ = false;
        release_former_parents();
      }
      return;
    case FrameType::kGoodbye:
      return learn(TreeNews::decode(payload, self_.own.ranks), rank);
    case FrameType::kDeath:
      return learn_death(Death::decode(payload, self_.own.ranks), rank);
    case FrameType::kRelease:
      neighbours_.at(rank).released = true;
      return;
    default:
      self_.on_frame(rank, type, payload);
  }
}

bool ControlTree::is_expected_to_end(int rank, const Neighbour& neighbour) const {
  return !neighbour.introduced || neighbour.connection->finishing() || neighbour.released || !is_here(rank) ||
         given_up();
}

void ControlTree::ended(int rank, const std::string& trouble) {
  const auto found = neighbours_.find(rank);
  if (found == neighbours_.end()) return;
  const Neighbour neighbour = std::move(found->second);
  neighbours_.erase(found);
  // An end is the answer to this rank's own, or it was announced; otherwise it is a death.
  const bool expected = is_expected_to_end(rank, neighbour);
  neighbour.connection->close();
  if (!expected) {
    learn_death({rank, self_.own.rank, trouble}, kNobody);
  } else if (rank == parent_) {
    parent_ = kNobody;
  }
  // Nobody relays any more, or the new parent was gone already: another one is needed now.
  if (expected && searching_ && !dialer_ && parent_ == kNobody && neighbour.role != Role::kChild) find_parent();
  if (leaving_) advance_leave();
}

std::vector<int> ControlTree::neighbours() const {
  std::vector<int> ranks;
  for (const auto& [rank, neighbour] : neighbours_) ranks.push_back(rank);
  return ranks;
}

bool ControlTree::should_answer(int neighbour) const {
  const auto found = neighbours_.find(neighbour);
  return found != neighbours_.end() && !is_expected_to_end(neighbour, found->second);
}

void ControlTree::send(int neighbour, const Frame& frame) {
  if (const auto found = neighbours_.find(neighbour); found != neighbours_.end()) found->second.connection->send(frame);
}

void ControlTree::send_to_parent(const Frame& frame) {
  if (parent_ != kNobody) neighbours_.at(parent_).connection->send(frame);
}

void ControlTree::send_to_children(const Frame& frame) {
  for (auto& [rank, neighbour] : neighbours_) {
    if (neighbour.role == Role::kChild) neighbour.connection->send(frame);
  }
}

void ControlTree::flood(const Frame& frame, int from) {
  for (auto& [rank, neighbour] : neighbours_) {
    if (rank != from) neighbour.connection->send(frame);
  }
}

void ControlTree::spread(const Goodbye& goodbye, int from) {
  news_.push_back({goodbye, goodbye.rank, from});
  if (news_.size() == 1) {
    spread_.arm_after(kSpreadDelay, [this] { spread_news(); });
  }
}

void ControlTree::spread_news() {
  const std::vector<News> all = std::exchange(news_, {});
  for (auto& [to, neighbour] : neighbours_) {
    TreeNews news;
    for (const News& one : all) {
      if (one.from == to) continue;
      if (one.goodbye) news.goodbyes.push_back(*one.goodbye);
      if (!one.goodbye) news.departed.push_back(one.rank);
      if (news.goodbyes.size() < TreeNews::kMostGoodbyes) continue;
      neighbour.connection->send(FrameType::kGoodbye, news.encode());
      news = {};
    }
    if (!news.empty()) neighbour.connection->send(FrameType::kGoodbye, news.encode());
  }
}

void ControlTree::learn(const TreeNews& news, int from) {
  for (const Goodbye& goodbye : news.goodbyes) self_.on_goodbye(goodbye, from);
  for (const int rank : news.departed) learn_departure(rank, from);
}

void ControlTree::learn_departure(int rank, int from) {
  if (!is_here(rank)) return;
  presence_[static_cast<std::size_t>(rank)] = Presence::kDeparted;
  news_.push_back({std::nullopt, rank, from});
  if (news_.size() == 1) {
    spread_.arm_after(kSpreadDelay, [this] { spread_news(); });
  }
  if (rank == parent_) orphaned();
}

void ControlTree::learn_death(const Death& death, int from) {
  if (!is_here(death.rank)) return;
  presence_[static_cast<std::size_t>(death.rank)] = Presence::kDead;
  deaths_.push_back(death);
  const Frame frame = make_frame(FrameType::kDeath, death.encode());
  flood(frame, from);
  if (const auto found = neighbours_.find(death.rank); found != neighbours_.end()) {
    // It may live, cut off from others: it has been told, and must not tell what it makes of that.
    found->second.connection->linger();
    neighbours_.erase(found);
  }
  self_.on_death(death);
  if (death.rank == parent_) orphaned();
  roll_call_.begin_soon();
}

void ControlTree::orphaned() {
  if (const auto former = neighbours_.find(parent_); former != neighbours_.end()) {
    former->second.role = Role::kFormerParent;
  }
  parent_ = kNobody;
  if (leaving_ || !table_ || given_up()) return;
  searching_ = true;
  tried_.clear();
  search_.arm_after(kSearchDelay, [this] { find_parent(); });
}

void ControlTree::find_parent() {
  search_.cancel();
  const int candidate = next_candidate();
  if (candidate == kNobody) {
    for (int rank = 0; rank < self_.own.rank; ++rank) {
      if (!is_here(rank)) continue;
      // Somebody should be there, and nobody answers: perhaps they are just leaving, or dead and not known to be.
      tried_.clear();
      search_.arm_after(kSearchPause, [this] { find_parent(); });
      return;
    }
    searching_ = false;  // this rank is the lowest that is left: the root of the tree
    if (!deaths_.empty()) roll_call_.begin_soon();
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
  const auto possible = [this](int rank) { return is_here(rank) && !tried_.contains(rank); };
  for (int rank = tree_parent(self_.own.rank); rank >= 0; rank = tree_parent(rank)) {
    if (possible(rank)) return rank;
  }
  std::vector<int> lower;
  for (int rank = 0; rank < self_.own.rank; ++rank) {
    if (is_here(rank)) lower.push_back(rank);
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

// For the rank without a parent to look for. Those with a lower number, where there are any, it asks to be its parent.
std::vector<int> ControlTree::missing() const {
  std::vector<int> missing;
  if (parent_ != kNobody || !table_ || leaving_ || given_up()) return missing;
  for (int rank = self_.own.rank + 1; rank < self_.own.ranks; ++rank) {
    if (is_here(rank) && !neighbours_.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

void ControlTree::beat(bool overslept) {
  const Clock::time_point now = Clock::now();
  const Frame frame = make_frame(FrameType::kHeartbeat);
  std::vector<int> silent;
  for (auto& [rank, neighbour] : neighbours_) {
    if (overslept) neighbour.connection->forget_silence();
    if (now - neighbour.connection->last_heard() > self_.silence) silent.push_back(rank);
    neighbour.connection->send(frame);
  }
  const std::string trouble = fmt::format(
      "nothing was heard of it for {:.1f} s (TUTTI_SILENCE): it is stopped, or its host or the network between hangs",
      static_cast<double>(self_.silence.count()) / 1000);
  for (const int rank : silent) {
    const auto found = neighbours_.find(rank);
    if (found == neighbours_.end()) continue;
    if (is_expected_to_end(rank, found->second)) {
      ended(rank, trouble);
    } else {
      learn_death({rank, self_.own.rank, trouble}, kNobody);
    }
  }
  if (leaving_) advance_leave();
  heartbeat_.arm([this](bool late) { beat(late); });
}

void ControlTree::leave(bool at_once) {
  leaving_ = true;
  search_.cancel();
  if (dialer_) dialer_->cancel();
  dialer_.reset();
  searching_ = false;
  roll_call_.cancel();
  learn_departure(self_.own.rank, kNobody);
  spread_.cancel();
  spread_news();
  if (at_once) return finish_leave();
  leave_deadline_.arm_after(kLeavePatience, [this] { finish_leave(); });
  advance_leave();
}

// A rank that leaves relays until its children have left, too, or found another parent; then it closes towards its
// parent, which answers in kind.
void ControlTree::advance_leave() {
  if (neighbours_.empty()) return finish_leave();
  const bool needed = std::any_of(neighbours_.begin(), neighbours_.end(),
                                  [](const auto& entry) { return entry.second.role == Role::kChild; });
  if (needed) return;
  spread_news();
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

}  // namespace tutti
