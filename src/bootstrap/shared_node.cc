#include "bootstrap/shared_node.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <string>
#include <string_view>
#include <utility>

#include "base/descriptors.h"
#include "base/net/interfaces.h"
#include "base/only_errors.h"
#include "bootstrap/complaint.h"
#include "bootstrap/host.h"
#include "bootstrap/sockets.h"
#include "bootstrap/waiting_times.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

// The root answers at the deadline; this is how much longer a rank waits for the answer.
constexpr milliseconds kGrace(1000);
// How long rank 0 stays to tell those who come late why the meeting failed.
constexpr milliseconds kLateComers(2000);
// Descriptors that a rank holds at most, and at the root one more for each rank; data connections come on top.
constexpr long kOfRank = 16;
// Waits look up this often whether the communicator failed on another path.
constexpr milliseconds kLookUp(50);

// The root of a unique id may not know what the communicator is called.
Error with_name(const Error& error, const std::string& name) {
  const std::string_view text = error.what();
  if (text.starts_with("communicator \"")) return error;
  return {error.code(), fmt::format("communicator \"{}\": {}", name, text), error.peer()};
}

// Of this rank alone; otherwise the others know, or cannot be reached.
bool is_own_trouble(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kTimeout:
    case ErrorCode::kUnauthorized:
    case ErrorCode::kMismatch:
    case ErrorCode::kRemote:
      return false;
    default:
      return true;
  }
}

}  // namespace

SharedNode::SharedNode(const Membership& membership, const Config& config, Health& health) {
  try {
    meet(membership, config, health);
  } catch (const std::exception& exception) {
    close();
    throw ToldFailure(as_error(exception));
  }
}

SharedNode::~SharedNode() { close(); }

void SharedNode::close() {
  if (!process_) return;
  if (!process_->is_this()) {
    static_cast<void>(node_.release());
    static_cast<void>(root_.release());
    return;
  }
  if (node_) {
    process_->loop().call([this] { node_.reset(); });
  }
  root_.reset();
}

void SharedNode::post(std::function<void(ControlNode&)> work) {
  // The node lives until close(), which is ordered after this.
  process_->loop().post([node = node_.get(), work = std::move(work)] { work(*node); });
}

void SharedNode::call(const std::function<void(ControlNode&)>& work) {
  process_->loop().call([this, &work] { work(*node_); });
}

void SharedNode::meet(const Membership& given, const Config& config, Health& health) {
  const Deadline deadline = meeting_deadline(config);
  Membership membership;
  std::unique_ptr<MeetingWatch> watch;
  try {
    only_errors([&] {
      membership = given;
      process_ = Process::get();
      watch = std::make_unique<MeetingWatch>(
          process_, fmt::format("communicator \"{}\": rank {}", membership.name, membership.rank),
          config.duration(Setting::kStallWarning), membership.origin);
      introduce(membership, config, health, deadline, *watch);
    });
  } catch (const Error& error) {
    if (is_own_trouble(error)) {
      complain(process_, given, config, error, root_.get(), deadline);
    } else {
      stay_for_late_comers(given, error, deadline);
    }
    throw;
  }
  try {
    wait_until_met(membership, deadline + kGrace);
  } catch (const Error& error) {
    call([](ControlNode& node) { node.abandon(node.met()); });
    if (results_.untold) complain(process_, membership, config, error, root_.get(), deadline);
    stay_for_late_comers(membership, error, deadline);
    throw;
  }
}

// Nobody else tells those who come a little later: the port is closed then.
void SharedNode::stay_for_late_comers(const Membership& membership, const Error& error, Deadline deadline) {
  if (!root_ || !membership.root_listens || error.code() == ErrorCode::kTimeout) return;
  root_->wait_until_told(membership.ranks, std::min(deadline, Clock::now() + kLateComers));
}

void SharedNode::introduce(Membership& membership, const Config& config, Health& health, Deadline deadline,
                           MeetingWatch& watch) {
  // Where rank 0 listens, the root is rank 0's: another rank of this process that comes first must not take it away.
  if (membership.rank == 0 || !membership.root_listens) root_ = RootServer::take_pending(membership.nonce);
  if (root_) root_->rename(membership.name);
  if (!root_ && is_cut_off(membership, config)) {
    throw Error(ErrorCode::kSystem,
                fmt::format("communicator \"{}\": rank {} cannot meet the others at {}: lo is down in this network "
                            "namespace (ip link set lo up)",
                            membership.name, membership.rank, root_text(membership)));
  }
  if (!root_ && membership.root_listens && membership.rank == 0) {
    root_ = RootServer::open(process_, membership, config, deadline);
  }
  if (membership.rank != 0) complete_membership(membership, deadline, &watch);
  const long meeting = kOfRank + (root_ ? membership.ranks : 0);
  require_descriptors(meeting, meeting + membership.ranks, fmt::format("rank {}", membership.rank));
  advertised_addresses(config, membership.loopback_only);
  ReachedRoot reached = reach_root(process_->loop(), membership, config,
                                   root_ ? root_->local() : std::vector<SocketAddress>{}, deadline, &watch);
  const bool loopback_only = membership.loopback_only;
  loopback_only_ = loopback_only;
  UniqueFd listening = listen_on_free_port(config, loopback_only);

  Introduction introduction;
  introduction.agreement = config.agreement_hash();
  introduction.agreement_text = config.agreement_text();
  introduction.patience_ms = patience_until(deadline);
  introduction.host = {host_name(), host_identity(config),
                       advertised_addresses(config, loopback_only, &reached.address)};
  introduction.pid = static_cast<std::uint32_t>(::getpid());
  introduction.port = local_address(listening.get()).port();

  ControlNode::Setup setup;
  setup.own = {membership.rank, membership.ranks, {}, membership.secret};
  setup.name = membership.name;
  setup.job = membership.job;
  setup.silence = config.duration(Setting::kSilence);
  setup.interfaces = read_interfaces();
  process_->loop().call([&] {
    node_ = std::make_unique<ControlNode>(process_->loop(), health, results_, std::move(setup), std::move(listening));
    node_->meet(std::move(reached.socket), introduction, watch.listener());
  });
  watch.waits(fmt::format(
      "for the root, rank 0, at {}: it does not say for whom it waits; it is stopped, or its host or the network hangs",
      reached.address.text()));
  watch.ask_through([this] { node_->ask_root(); });
}

void SharedNode::wait_until_met(const Membership& membership, Deadline deadline) {
  std::unique_lock lock(results_.mutex);
  results_.changed.wait_until(lock, deadline, [this] { return results_.table || results_.failure; });
  if (results_.failure) throw with_name(results_.failure->error(), membership.name);
  if (!results_.table) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("communicator \"{}\": the root does not answer: is its host alive?", membership.name), 0);
  }
  table_ = results_.table;
}

std::optional<std::vector<std::vector<std::byte>>> SharedNode::exchange(std::span<const std::byte> mine,
                                                                        const Health& health, Deadline deadline) {
  post([copy = std::vector(mine.begin(), mine.end())](ControlNode& node) { node.contribute(copy); });
  std::unique_lock lock(results_.mutex);
  while (!results_.gathered) {
    if (results_.failure) throw results_.failure->error();
    if (health.failed()) return std::nullopt;
    if (Clock::now() >= deadline) {
      lock.unlock();
      int missing = Error::kNoPeer;
      call([&missing](ControlNode& node) { missing = node.waits_for(); });
      throw Error(ErrorCode::kTimeout, "the exchange did not end in time", missing);
    }
    results_.changed.wait_until(lock, std::min<Deadline>(deadline, Clock::now() + kLookUp));
  }
  return std::exchange(results_.gathered, std::nullopt);
}

}  // namespace tutti
