#include "bootstrap/control_plane.h"

#include <fmt/format.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/net/handshake.h"
#include "bootstrap/gathering.h"
#include "bootstrap/host.h"
#include "bootstrap/shared_node.h"
#include "bootstrap/survivor_call.h"

namespace tutti {
namespace {

// Known by their purpose and the communicator's public name, which no other has.
std::vector<std::byte> key_for(const Credentials& own, std::string_view purpose) {
  const Key key = own.secret.derive(purpose, own.communicator);
  return {key.bytes().begin(), key.bytes().end()};
}

// Of a communicator that was split off `parent`. All its members make the same name out of what they know, and nobody
// makes it twice: a parent uses a label once.
Credentials split_credentials(const Credentials& parent, const ControlPlane::Subset& subset) {
  const Key key = parent.secret.derive(fmt::format("split {}", subset.label), parent.communicator);
  Nonce nonce;
  std::copy_n(key.bytes().begin(), nonce.size(), nonce.begin());
  return {subset.rank, static_cast<int>(subset.members.size()), communicator_name(nonce, subset.label), parent.secret};
}

// A communicator of one rank has nobody to talk to.
class SoloControlPlane : public ControlPlane {
 public:
  SoloControlPlane(Credentials own, Health& health) : health_(health), own_(std::move(own)) {}

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, Deadline) override {
    return {{mine.begin(), mine.end()}};
  }
  int waits_for() const override { return -1; }
  std::unique_ptr<ControlPlane> split(const Subset& subset, Health& health) override {
    return std::make_unique<SoloControlPlane>(split_credentials(own_, subset), health);
  }
  std::string describe(int rank) const override {
    return fmt::format("rank {} ({} pid {})", rank, host_name(), ::getpid());
  }
  void poison(ErrorCode code, const std::string& reason, int peer) override { health_.fail(code, reason, peer); }
  void poison_in_order(ErrorCode code, const std::string& reason, int peer) override { poison(code, reason, peer); }
  void compare_call(const CallDescription&) override {}
  void set_describe_call(DescribeCall) override {}
  void survey(std::chrono::milliseconds, std::function<bool()>, std::function<void(const Survey&)>) override {}
  void report(const std::string&, int) override {}
  void set_survey_handlers(SurveyHandlers) override {}
  void set_data_handler(DataHandler) override {}
  void connect_data(int) override {}
  std::unique_ptr<SurvivorCall> call_survivors(const Config&, Deadline) override {
    throw Error(ErrorCode::kUnsupported, "a communicator of one rank has no survivors");
  }
  std::vector<std::byte> derive_key(std::string_view purpose) const override { return key_for(own_, purpose); }
  void leave(std::uint64_t last_call) override { health_.leave(0, last_call); }

 private:
  Health& health_;
  const Credentials own_;
};

// One of the communicators on a tree: its scope in the node that they share.
class TreeControlPlane : public ControlPlane {
 public:
  TreeControlPlane(std::shared_ptr<SharedNode> node, ControlScope& scope, std::shared_ptr<const RankTable> table,
                   Health& health, std::string name, std::vector<int> members, bool met)
      : health_(health),
        name_(std::move(name)),
        own_(scope.own()),
        members_(std::move(members)),
        table_(std::move(table)),
        met_(met),
        node_(std::move(node)),
        scope_(&scope) {}

  ~TreeControlPlane() override {
    if (health_.used_after_fork()) return;
    const std::shared_ptr<SharedNode> node = take_node();
    if (node) node->call([this](ControlNode& on_loop) { on_loop.abandon(*scope_); });
  }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, Deadline deadline) override {
    check_usable();
    if (mine.size() > kMaxContribution) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} bytes to exchange: at most {} are allowed", mine.size(), kMaxContribution));
    }
    if (!met_) throw Error(ErrorCode::kUnsupported, "only ranks that meet exchange over their control connections");
    for (int rank = 0; rank < own_.ranks; ++rank) {
      if (health_.left_after(rank) == Health::kStillHere) continue;
      throw Error(
          ErrorCode::kRemote,
          fmt::format("{} has left communicator \"{}\": no exchange is possible any more", describe(rank), name_),
          rank);
    }
    try {
      if (auto all = node_->exchange(mine, health_, deadline)) return *std::move(all);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kTimeout || health_.failed()) throw;
      const std::string whom = error.peer() < 0 ? "some rank" : describe(error.peer());
      const std::string text = fmt::format(
          "the set-up of communicator \"{}\" did not end in time: {} waits for {}, which does not come, or waits "
          "itself",
          name_, describe(own_.rank), whom);
      poison(ErrorCode::kTimeout, text, Error::kNoPeer);
      throw Error(ErrorCode::kTimeout, text);
    }
    throw health_.reason();
  }

  std::unique_ptr<ControlPlane> split(const Subset& subset, Health& health) override {
    check_usable();
    if (subset.members.size() == 1) {
      return std::make_unique<SoloControlPlane>(split_credentials(own_, subset), health);
    }
    ControlScope::Self self;
    self.own = split_credentials(own_, subset);
    self.name = subset.name;
    RankTable table(self.own.ranks);
    for (const int rank : subset.members) {
      const auto there = static_cast<int>(self.members.size());
      table.set(there, table_->host(rank), table_->pid(rank), table_->port(rank));
      self.members.push_back(members_[static_cast<std::size_t>(rank)]);
    }
    const auto shared_table = std::make_shared<const RankTable>(std::move(table));
    const std::vector<int> members = self.members;
    const std::shared_ptr<SharedNode> node = share_node();
    ControlScope* scope = nullptr;
    node->call([&](ControlNode& on_loop) { scope = &on_loop.open(health, std::move(self), shared_table); });
    return std::make_unique<TreeControlPlane>(node, *scope, shared_table, health, subset.name, members, false);
  }

  int waits_for() const override {
    const std::lock_guard lock(mutex_);
    return node_ ? node_->waits_for() : -1;
  }

  std::string describe(int rank) const override { return table_->describe(rank); }

  void poison(ErrorCode code, const std::string& reason, int peer) override {
    health_.fail(code, reason, peer, Health::Reach::kThisRank);
    on_loop(
        [poison = Poison{code, peer, reason}](ControlNode& node, ControlScope& scope) { node.poison(scope, poison); });
  }

  void poison_in_order(ErrorCode code, const std::string& reason, int peer) override {
    on_loop(
        [poison = Poison{code, peer, reason}](ControlNode& node, ControlScope& scope) { node.poison(scope, poison); });
  }

  void compare_call(const CallDescription& mine) override {
    on_loop([mine](ControlNode& node, ControlScope& scope) { node.compare(scope, mine); });
  }

  void set_describe_call(DescribeCall describe) override {
    on_loop([describe = std::move(describe)](ControlNode&, ControlScope& scope) { scope.set_describe_call(describe); });
  }

  void survey(std::chrono::milliseconds delay, std::function<bool()> wanted,
              std::function<void(const Survey&)> done) override {
    on_loop([delay, wanted = std::move(wanted), done = std::move(done)](ControlNode& node, ControlScope& scope) {
      node.survey(scope, delay, wanted, done);
    });
  }

  void report(const std::string& text, int blamed) override {
    on_loop([text, blamed](ControlNode& node, ControlScope& scope) { node.report(scope, text, blamed); });
  }

  void set_survey_handlers(SurveyHandlers handlers) override {
    on_loop(
        [handlers = std::move(handlers)](ControlNode&, ControlScope& scope) { scope.set_survey_handlers(handlers); });
  }

  void set_data_watch(std::function<void()> watch) override {
    on_loop([watch = std::move(watch)](ControlNode&, ControlScope& scope) { scope.set_data_watch(watch); });
  }

  void set_data_waits(std::function<void(int peer, bool waits)> waits) override {
    on_loop([waits = std::move(waits)](ControlNode&, ControlScope& scope) { scope.set_data_waits(waits); });
  }

  void set_data_handler(DataHandler handler) override {
    on_loop([handler = std::move(handler)](ControlNode&, ControlScope& scope) { scope.set_data_handler(handler); });
  }

  void connect_data(int peer) override {
    on_loop([peer](ControlNode& node, ControlScope& scope) { node.connect_data(scope, peer); });
  }

  std::unique_ptr<SurvivorCall> call_survivors(const Config& config, Deadline deadline) override {
    if (health_.used_after_fork()) throw health_.reason();
    const std::shared_ptr<SharedNode> node = share_node();
    if (!node) throw_destroyed();
    TreeSurvivorCall::Old old;
    // The scope stays as long as the communicator, which nobody destroys during a call.
    old.call = [node, scope = scope_](const std::function<void(Survivors&)>& work) {
      node->call([&](ControlNode& on_loop) { work(on_loop.survivors(*scope)); });
    };
    old.own = own_;
    old.name = name_;
    old.loopback_only = node->loopback_only();
    old.table = table_;
    return std::make_unique<TreeSurvivorCall>(std::move(old), config, deadline);
  }

  std::vector<std::byte> derive_key(std::string_view purpose) const override { return key_for(own_, purpose); }

  void leave(std::uint64_t last_call) override {
    if (health_.used_after_fork()) return;
    // From here on nobody else gets at the scope, which is gone when this rank has left.
    const std::shared_ptr<SharedNode> node = take_node();
    if (!node) return;
    std::promise<void> left;
    node->post([this, last_call, &left](ControlNode& on_loop) {
      on_loop.leave(*scope_, last_call, [&left] { left.set_value(); });
    });
    left.get_future().wait();
  }

 private:
  void check_usable() const {
    if (health_.failed()) throw health_.reason();
    if (!share_node()) throw_destroyed();
  }
  [[noreturn]] void throw_destroyed() const {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("communicator \"{}\" was destroyed", name_));
  }

  // Nothing once this rank has left: whatever comes then is too late to matter.
  void on_loop(std::function<void(ControlNode&, ControlScope&)> work) {
    if (health_.used_after_fork()) return;
    const std::lock_guard lock(mutex_);
    if (!node_) return;
    node_->post([scope = scope_, work = std::move(work)](ControlNode& node) { work(node, *scope); });
  }

  std::shared_ptr<SharedNode> share_node() const {
    const std::lock_guard lock(mutex_);
    return node_;
  }
  std::shared_ptr<SharedNode> take_node() {
    const std::lock_guard lock(mutex_);
    return std::move(node_);
  }

  Health& health_;
  const std::string name_;
  const Credentials own_;
  const std::vector<int> members_;                // their ranks in the tree
  const std::shared_ptr<const RankTable> table_;  // by rank here; shared with the scope
  const bool met_;
  mutable std::mutex mutex_;
  std::shared_ptr<SharedNode> node_;  // shared with the other communicators on the tree; null: this rank has left
  ControlScope* const scope_;         // of the node, until this rank has left; touched on the control thread only
};

}  // namespace

std::unique_ptr<ControlPlane> ControlPlane::meet(const Membership& membership, const Config& config, Health& health) {
  if (membership.ranks == 1) {
    RootServer::take_pending(membership.nonce);
    Credentials own{0, 1, communicator_name(random_nonce(), membership.job), membership.secret};
    if (own.secret.empty()) own.secret = Key::random();
    return std::make_unique<SoloControlPlane>(std::move(own), health);
  }
  const auto node = std::make_shared<SharedNode>(membership, config, health);
  std::vector<int> members(static_cast<std::size_t>(membership.ranks));
  std::iota(members.begin(), members.end(), 0);
  ControlScope* scope = nullptr;
  node->call([&](ControlNode& on_loop) { scope = &on_loop.met(); });
  return std::make_unique<TreeControlPlane>(node, *scope, node->table(), health, membership.name, std::move(members),
                                            true);
}

}  // namespace tutti
