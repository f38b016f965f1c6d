#include "bootstrap/survivor_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/net/handshake.h"
#include "base/net/interfaces.h"
#include "bootstrap/meeting_watch.h"
#include "bootstrap/process.h"
#include "bootstrap/root_server.h"
#include "bootstrap/sockets.h"

namespace tutti {
namespace {

// The control thread keeps the deadline; this is how much longer a thread waits for its verdict.
constexpr std::chrono::milliseconds kGrace(2000);

}  // namespace

TreeSurvivorCall::TreeSurvivorCall(Old old, const Config& config, Deadline deadline)
    : old_(std::move(old)), config_(config), deadline_(deadline) {
  old_.call([this](Survivors& survivors) {
    survivors_ = &survivors;
    survivors.begin(results_, deadline_);
  });
}

TreeSurvivorCall::~TreeSurvivorCall() {
  old_.call([](Survivors& survivors) { survivors.end(); });
  drop_root();
}

std::optional<Membership> TreeSurvivorCall::agree() {
  if (std::exchange(agreed_, true)) {
    drop_root();
    old_.call([](Survivors& survivors) { survivors.again(); });
  }
  MeetingWatch watch(Process::get(), fmt::format("shrink of communicator \"{}\": rank {}", old_.name, old_.own.rank),
                     config_.duration(Setting::kStallWarning));
  watch.ask_through([this, tell = watch.listener()] { tell(survivors_->waits()); });
  std::unique_lock lock(results_.mutex);
  while (!results_.agreement && !results_.done) {
    if (results_.failure) throw results_.failure->error();
    if (Clock::now() >= deadline_ + kGrace) {
      throw Error(ErrorCode::kTimeout,
                  fmt::format("shrink of communicator \"{}\": the survivors could not agree in time", old_.name));
    }
    if (std::exchange(results_.leads, false)) {
      lock.unlock();
      offer_root();
      lock.lock();
      continue;
    }
    results_.changed.wait_until(lock, deadline_ + kGrace);
  }
  if (results_.done) return std::nullopt;
  return membership(*results_.agreement);
}

bool TreeSurvivorCall::opened() {
  old_.call([](Survivors& survivors) { survivors.opened(); });
  std::unique_lock lock(results_.mutex);
  results_.changed.wait_until(lock, deadline_ + kGrace, [this] { return results_.done || results_.lost; });
  return results_.done;
}

// On a port of its own, as the root of a unique id: this rank, or another of this process, takes it when it meets.
void TreeSurvivorCall::offer_root() {
  if (root_ == Nonce{}) {
    const Nonce nonce = random_nonce();
    UniqueFd listening = listen_anywhere(interface_rules(config_).family, old_.loopback_only, 0);
    const Root::Place place{{0, 0, communicator_name(nonce, ""), secret(nonce)},
                            old_.name,
                            false,
                            config_.duration(Setting::kStallWarning)};
    port_ = local_address(listening.get()).port();
    auto root = std::make_unique<RootServer>(Process::get(), std::move(listening), place);
    refuse_meeting_ = root->refusal();
    RootServer::put_pending(nonce, std::move(root));
    root_ = nonce;
  }
  old_.call([this](Survivors& survivors) { survivors.offer_root(root_, port_, refuse_meeting_); });
}

void TreeSurvivorCall::drop_root() {
  if (root_ != Nonce{}) RootServer::take_pending(root_);
  root_ = {};
}

Key TreeSurvivorCall::secret(const Nonce& nonce) const { return old_.own.secret.derive("survivors", nonce); }

Membership TreeSurvivorCall::membership(const SurvivorAgreement& agreement) const {
  Membership membership;
  membership.rank =
      static_cast<int>(std::ranges::lower_bound(agreement.members, old_.own.rank) - agreement.members.begin());
  membership.ranks = static_cast<int>(agreement.members.size());
  for (const std::string& address : old_.table->host(agreement.leader).addresses) {
    membership.roots.push_back({address, agreement.port});
  }
  membership.secret = secret(agreement.nonce);
  membership.nonce = agreement.nonce;
  membership.loopback_only = old_.loopback_only;
  membership.root_listens = false;
  membership.name = old_.name;
  return membership;
}

}  // namespace tutti
