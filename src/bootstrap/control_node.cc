#include "bootstrap/control_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/log.h"

namespace tutti {

ControlNode::ControlNode(EventLoop& loop, Health& health, ControlResults& results, Setup setup, UniqueFd listening)
    : loop_(loop),
      results_(results),
      setup_(std::move(setup)),
      trouble_(loop, [this](const Error& error) { stopped(error); }),
      listener_(loop, std::move(listening)),
      gathering_(setup_.own.rank, setup_.own.ranks),
      retry_join_(loop) {
  ControlScope::Self self{setup_.own, setup_.name, {}, setup_.interfaces, {}};
  self.members.resize(static_cast<std::size_t>(setup_.own.ranks));
  std::iota(self.members.begin(), self.members.end(), 0);
  self.on_failure = [this, &health] { fail_meeting(Poison::of(health.reason())); };
  scopes_.push_back(std::make_unique<ControlScope>(loop, health, std::move(self)));
}

ControlNode::~ControlNode() {
  if (root_) root_->linger();
}

ControlScope& ControlNode::open(Health& health, ControlScope::Self self, std::shared_ptr<const RankTable> table) {
  self.interfaces = setup_.interfaces;
  ControlScope& scope = *scopes_.emplace_back(std::make_unique<ControlScope>(loop_, health, std::move(self)));
  scope.set_table(std::move(table));
  book_->open(scope);
  for (const Death& death : tree_->deaths()) scope.learn_death(death, table_->describe(death.observer));
  return scope;
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
      if (book_->receive(from, type, payload, setup_.own.ranks)) return;
      log_debug("rank {} sent a message of type {} that has no place here", from, static_cast<int>(type));
  }
}

void ControlNode::learn_death(const Death& death) {
  const std::string observer = table_ ? table_->describe(death.observer) : fmt::format("rank {}", death.observer);
  log_debug("rank {} learns that rank {} died, from {}", setup_.own.rank, death.rank, observer);
  for (const auto& scope : scopes_) scope->learn_death(death, observer);
}

void ControlNode::stopped(const Error& error) {
  for (const auto& scope : scopes_) {
    const int self = scope->own().rank;
    const Poison poison{
        ErrorCode::kSystem, self,
        fmt::format("{} of communicator \"{}\": {}", scope->describe(self), scope->name(), error.what())};
    if (book_) book_->poison(*scope, poison);
    if (!table_) fail_meeting(poison);
  }
  if (on_left_) std::exchange(on_left_, nullptr)();
}

ControlScope* ControlNode::scope_named(const std::array<std::byte, 16>& communicator) {
  const auto found =
      std::ranges::find_if(scopes_, [&](const auto& scope) { return scope->own().communicator == communicator; });
  return found == scopes_.end() ? nullptr : found->get();
}

// Who may connect to this rank's listener, for what, and under the name of which communicator.
void ControlNode::admit_visitors() {
  listener_.admit(
      setup_.own,
      [this](const Hello& hello) {
        switch (hello.purpose) {
          case Purpose::kMeet:
            return "ranks meet at the root's port, and this is not it";
          case Purpose::kTree:
            return hello.communicator == setup_.own.communicator ? "" : "a tree has one name";
          case Purpose::kData:
          case Purpose::kSurvivors:
            return scope_named(hello.communicator) != nullptr ? "" : "this rank has left the communicator";
        }
        return "";
      },
      [this](const Hello& hello, ProvenSocket socket) {
        const int peer = static_cast<int>(hello.client_rank);
        if (hello.purpose == Purpose::kTree) return tree_->adopt(peer, std::move(socket));
        ControlScope* const scope = scope_named(hello.communicator);
        if (scope == nullptr) return;
        if (hello.purpose == Purpose::kSurvivors) return survivors(*scope).visit(peer, std::move(socket));
        scope->take_data(peer, std::move(socket.fd));
      });
  listener_.when_exhausted([this](const std::string& trouble) {
    for (const auto& scope : scopes_) {
      poison(*scope,
             {ErrorCode::kSystem, scope->own().rank,
              fmt::format("{} of communicator \"{}\" {}", scope->describe(scope->own().rank), scope->name(), trouble)});
    }
  });
  listener_.also_known_as([this](const std::array<std::byte, 16>& communicator) -> std::optional<std::uint32_t> {
    const ControlScope* scope = scope_named(communicator);
    if (scope == nullptr) return std::nullopt;
    return static_cast<std::uint32_t>(scope->own().rank);
  });
}

void ControlNode::survey(ControlScope& scope, std::chrono::milliseconds delay, std::function<bool()> wanted,
                         std::function<void(const Survey&)> done) {
  const auto ask = [this, &scope, wanted = std::move(wanted), done = std::move(done)] {
    if (scope.failed() || !wanted()) return;
    book_->survey(scope, [this, &scope, done](const Findings& findings) {
      if (table_ && !scope.failed()) done(scope.survey_of(findings, *table_));
    });
  };
  if (delay.count() == 0) return ask();
  scope.survey_timer().arm_after(delay, ask);
}

void ControlNode::connect_data(ControlScope& scope, int peer) {
  scope.connect_data(
      peer, [this, &scope, peer](const std::string& trouble) { book_->ask_call_back(scope, peer, trouble); },
      [this, &scope](const Poison& reason) { poison(scope, reason); });
}

void ControlNode::leave(ControlScope& scope, std::uint64_t last_call, std::function<void()> done) {
  const bool failed = scope.failed();
  if (book_) {
    book_->say_goodbye(scope, last_call);
    book_->close(scope);
  }
  std::erase_if(scopes_, [&](const auto& one) { return one.get() == &scope; });
  if (!scopes_.empty() || !tree_) return done();
  on_left_ = std::move(done);
  tree_->leave(failed);
}

void ControlNode::abandon(ControlScope& scope) {
  if (book_) {
    const int self = scope.own().rank;
    poison(scope, {ErrorCode::kRemote, self,
                   fmt::format("{} gave communicator \"{}\" up without a goodbye: see its output", scope.describe(self),
                               scope.name())});
  }
  leave(scope, 0, [] {});
}

}  // namespace tutti
