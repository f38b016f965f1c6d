#include "bootstrap/control_plane.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <utility>

#include "base/net/handshake.h"
#include "base/net/interfaces.h"
#include "bootstrap/control_node.h"
#include "bootstrap/host.h"
#include "bootstrap/reach_root.h"
#include "bootstrap/root_server.h"
#include "bootstrap/sockets.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

// The root answers at the deadline; this is how much longer a rank waits for the answer.
constexpr milliseconds kGrace(1000);
// How long a rank with a local error tries to tell the root, for the sake of those who wait there.
constexpr milliseconds kComplaintPatience(2000);
// Waits look up this often whether the communicator failed on another path.
constexpr milliseconds kLookUp(50);

std::vector<std::byte> key_for(const Credentials& own, std::string_view purpose) {
  const Key key = own.secret.derive(purpose, own.communicator);
  return {key.bytes().begin(), key.bytes().end()};
}

// A communicator of one rank has nobody to talk to.
class SoloControlPlane : public ControlPlane {
 public:
  SoloControlPlane(const Membership& membership, Health& health) : health_(health) {
    own_ = {0, 1, communicator_name(random_nonce(), membership.job), membership.secret};
    if (own_.secret.empty()) own_.secret = Key::random();
  }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, Deadline) override {
    return {{mine.begin(), mine.end()}};
  }
  std::string describe(int rank) const override {
    return fmt::format("rank {} ({} pid {})", rank, host_name(), ::getpid());
  }
  void poison(ErrorCode code, const std::string& reason, int peer) override { health_.fail(code, reason, peer); }
  void compare_call(const CallDescription&) override {}
  void set_describe_call(DescribeCall) override {}
  void set_data_handler(DataHandler) override {}
  void connect_data(int) override {}
  std::vector<std::byte> derive_key(std::string_view purpose) const override { return key_for(own_, purpose); }
  void leave(std::uint64_t last_call) override { health_.leave(0, last_call); }

 private:
  Health& health_;
  Credentials own_;
};

class TreeControlPlane : public ControlPlane {
 public:
  TreeControlPlane(Membership membership, const Config& config, Health& health)
      : membership_(std::move(membership)), health_(health), process_(Process::get()) {
    meet(config);
  }

  ~TreeControlPlane() override { close(); }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, Deadline deadline) override {
    check_usable();
    if (mine.size() > kMaxContribution) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} bytes to exchange: at most {} are allowed", mine.size(), kMaxContribution));
    }
    for (int rank = 0; rank < membership_.ranks; ++rank) {
      if (health_.left_after(rank) == Health::kStillHere) continue;
      throw Error(ErrorCode::kRemote,
                  fmt::format("{} has left communicator \"{}\": no exchange is possible any more", describe(rank),
                              membership_.name),
                  rank);
    }
    on_loop([copy = std::vector(mine.begin(), mine.end())](ControlNode& node) { node.contribute(copy); });
    std::unique_lock lock(results_.mutex);
    while (!results_.gathered) {
      if (results_.failure) throw as_error(*results_.failure);
      if (health_.failed()) throw health_.reason();
      if (Clock::now() >= deadline) {
        lock.unlock();
        const std::string text = fmt::format(
            "an exchange among the ranks of communicator \"{}\" did not end in time: "
            "some rank did not come to it",
            membership_.name);
        poison(ErrorCode::kTimeout, text, Error::kNoPeer);
        throw Error(ErrorCode::kTimeout, text);
      }
      results_.changed.wait_until(lock, std::min<Deadline>(deadline, Clock::now() + kLookUp));
    }
    return *std::exchange(results_.gathered, std::nullopt);
  }

  std::string describe(int rank) const override { return table_->describe(rank); }

  void poison(ErrorCode code, const std::string& reason, int peer) override {
    health_.fail(code, reason, peer);
    on_loop([=](ControlNode& node) { node.poison(code, reason, peer); });
  }

  void compare_call(const CallDescription& mine) override {
    on_loop([mine](ControlNode& node) { node.compare(mine); });
  }

  void set_describe_call(DescribeCall describe) override {
    on_loop([describe = std::move(describe)](ControlNode& node) { node.set_describe_call(describe); });
  }

  void set_data_handler(DataHandler handler) override {
    on_loop([handler = std::move(handler)](ControlNode& node) { node.set_data_handler(handler); });
  }

  void connect_data(int peer) override {
    on_loop([peer](ControlNode& node) { node.connect_data(peer); });
  }

  std::vector<std::byte> derive_key(std::string_view purpose) const override { return key_for(own_, purpose); }

  void leave(std::uint64_t last_call) override {
    if (!node_ || !process_->is_this()) return;
    on_loop([last_call](ControlNode& node) { node.leave(last_call); });
    {
      std::unique_lock lock(results_.mutex);
      results_.changed.wait(lock, [this] { return results_.left; });
    }
    said_goodbye_ = true;
    close();
  }

 private:
  static Error as_error(const Poison& poison) { return {poison.code, poison.reason, poison.peer}; }

  void check_usable() const {
    if (!process_->is_this()) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("communicator \"{}\" was made before fork(): make a new one in the child", membership_.name));
    }
    if (health_.failed()) throw health_.reason();
  }

  void on_loop(std::function<void(ControlNode&)> work) {
    // The node lives until close(), which is ordered after this.
    process_->loop().post([node = node_.get(), work = std::move(work)] { work(*node); });
  }

  void meet(const Config& config) {
    const Deadline deadline = Clock::now() + config.duration(Setting::kMeetTimeout);
    // Where rank 0 listens, the root is rank 0's: another rank of this process that comes first must not take it away.
    if (membership_.rank == 0 || !membership_.root_listens) root_ = RootServer::take_pending(membership_.nonce);
    if (!root_ && membership_.root_listens && membership_.rank == 0) {
      root_ = RootServer::open(process_, membership_, config, deadline);
    }
    if (membership_.rank != 0) complete_membership(membership_, deadline);

    try {
      advertised_addresses(config, membership_.loopback_only);
    } catch (const Error& error) {
      complain(config, error, std::min(deadline, Clock::now() + kComplaintPatience));
      throw;
    }
    ReachedRoot reached = reach(config, deadline);
    const bool loopback_only = membership_.loopback_only;
    UniqueFd listening = listen_anywhere(interface_rules(config).family, loopback_only, 0);

    Introduction introduction;
    introduction.agreement = config.agreement_hash();
    introduction.agreement_text = config.agreement_text();
    introduction.patience_ms = static_cast<std::uint32_t>(
        std::max<std::int64_t>(1, std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count()));
    introduction.host = {host_name(), host_identity(config),
                         advertised_addresses(config, loopback_only, &reached.address)};
    introduction.pid = static_cast<std::uint32_t>(::getpid());
    introduction.port = local_address(listening.get()).port();

    ControlNode::Setup setup;
    setup.own = {membership_.rank, membership_.ranks, {}, membership_.secret};
    setup.name = membership_.name;
    setup.job = membership_.job;
    setup.silence = config.duration(Setting::kSilence);
    setup.interfaces = read_interfaces();
    process_->loop().call([&] {
      node_ =
          std::make_unique<ControlNode>(process_->loop(), health_, results_, std::move(setup), std::move(listening));
      node_->meet(std::move(reached.socket), introduction);
    });
    try {
      wait_until_met(deadline + kGrace);
    } catch (const Error&) {
      close();
      throw;
    }
  }

  ReachedRoot reach(const Config& config, Deadline deadline) {
    return reach_root(process_->loop(), membership_, config, root_ ? &root_->local() : nullptr, deadline);
  }

  void wait_until_met(Deadline deadline) {
    std::unique_lock lock(results_.mutex);
    results_.changed.wait_until(lock, deadline, [this] { return results_.table || results_.failure; });
    if (results_.failure) throw as_error(*results_.failure);
    if (!results_.table) {
      throw Error(ErrorCode::kTimeout,
                  fmt::format("communicator \"{}\": the root does not answer: is its host alive?", membership_.name),
                  0);
    }
    table_ = results_.table;
    lock.unlock();
    process_->loop().call([this] { own_ = node_->credentials(); });
  }

  // This rank cannot take part: those who wait for it get the reason at once.
  void complain(const Config& config, const Error& error, Deadline deadline) {
    try {
      ReachedRoot reached = reach(config, deadline);
      const Poison complaint{ErrorCode::kRemote, membership_.rank,
                             fmt::format("rank {} ({} pid {}) cannot take part: {}", membership_.rank, host_name(),
                                         ::getpid(), error.what())};
      std::shared_ptr<Connection> connection;
      std::promise<void> heard;
      process_->loop().call([&] {
        connection = std::make_shared<Connection>(process_->loop(), std::move(reached.socket), kMaxIntroduction);
        connection->start([](FrameType, std::span<const std::byte>) {}, [&](const std::string&) { heard.set_value(); });
        connection->send(FrameType::kRefused, complaint.encode());
      });
      // The root may be this process's own, and must not go before it has told the others.
      heard.get_future().wait_until(deadline);
      process_->loop().call([&] { connection->close(); });
    } catch (const Error&) {
      // The root is not there either; what this rank throws is the first cause.
    }
  }

  void close() {
    if (!process_->is_this()) {
      // The thread that owns these is in the parent.
      static_cast<void>(node_.release());
      static_cast<void>(root_.release());
      return;
    }
    if (node_) {
      process_->loop().call([this] {
        if (!said_goodbye_) node_->abandon();
        node_.reset();
      });
    }
    root_.reset();
  }

  Membership membership_;
  Health& health_;
  // Shared with all other communicators of the process: the last one ends the control thread.
  std::shared_ptr<Process> process_;
  std::unique_ptr<RootServer> root_;
  ControlResults results_;
  std::unique_ptr<ControlNode> node_;  // made, used and destroyed on the control thread
  std::shared_ptr<const RankTable> table_;
  Credentials own_;
  bool said_goodbye_ = false;
};

}  // namespace

std::unique_ptr<ControlPlane> ControlPlane::meet(const Membership& membership, const Config& config, Health& health) {
  if (membership.ranks == 1) {
    RootServer::take_pending(membership.nonce);
    return std::make_unique<SoloControlPlane>(membership, health);
  }
  return std::make_unique<TreeControlPlane>(membership, config, health);
}

}  // namespace tutti
