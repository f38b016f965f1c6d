#include <algorithm>
#include <utility>

#include "bootstrap/survivors.h"

// What the leader of survivors does: it waits for everybody, decides, and hears when all are through.
namespace tutti {
namespace {

// Those who live and call mostly come by themselves within this time.
constexpr std::chrono::milliseconds kProbeDelay(30);

}  // namespace

void Survivors::lead() {
  phase_ = Phase::kLeading;
  leader_ = self_.own.rank;
  tell([](SurvivorResults& results) { results.leads = true; });
  for (auto& [rank, visitor] : visitors_) {
    if (visitor.joins) send(*visitor.connection, {.kind = Kind::kWelcome});
  }
  probing_.arm_after(kProbeDelay, [this] { probe_absent(); });
  advance();
}

void Survivors::offer_root(const Nonce& nonce, std::uint16_t port, std::function<void(const Poison&)> refuse) {
  refuse_meeting_ = std::move(refuse);
  root_ = {nonce, port};
  advance();
}

void Survivors::probe_absent() {
  for (int rank = self_.own.rank + 1; rank < self_.own.ranks && leads(); ++rank) {
    if (!joined(rank) && !self_.has_left(rank) && !dead_.contains(rank)) probe(rank);
  }
  advance();  // somebody may have left meanwhile
}

void Survivors::probe(int rank) {
  if (probes_.contains(rank)) return;
  probes_[rank].dialer =
      Dialer::start(loop_, self_.addresses(rank), hello_to(rank), self_.own.secret, dial_patience(),
                    [this, rank](Dialer::Outcome outcome) {
                      Probe& probe = probes_.at(rank);
                      const std::shared_ptr<Dialer> over = std::move(probe.dialer);
                      if (!outcome.socket) return probe_ended(rank);
                      probe.connection = connect(std::move(outcome.socket));
                      probe.connection->start(
                          [this](FrameType type, std::span<const std::byte> payload) { hear_probed(type, payload); },
                          [this, rank](const std::string&) { probe_ended(rank); });
                      send(*probe.connection, {.kind = Kind::kLead});
                    });
}

void Survivors::hear_probed(FrameType type, std::span<const std::byte> payload) {
  if (type != FrameType::kSurvivor) return;
  const SurvivorMessage answer = SurvivorMessage::decode(payload, self_.own.ranks);
  if (answer.kind == Kind::kRefused) fail(answer.refusal);
}

void Survivors::probe_ended(int rank) {
  const auto found = probes_.find(rank);
  if (found == probes_.end()) return;
  if (found->second.connection) found->second.connection->close();
  probes_.erase(found);
  dead_.insert(rank);
  advance();
}

bool Survivors::joined(int rank) const {
  const auto found = visitors_.find(rank);
  return found != visitors_.end() && found->second.joins;
}

void Survivors::advance() {
  if (phase_ != Phase::kLeading || !root_) return;
  for (int rank = self_.own.rank + 1; rank < self_.own.ranks; ++rank) {
    if (!joined(rank) && !self_.has_left(rank) && !dead_.contains(rank)) return;
  }
  decide();
}

void Survivors::decide() {
  phase_ = Phase::kDeciding;
  agreement_ = {{self_.own.rank}, root_->first, self_.own.rank, root_->second};
  for (const auto& [rank, visitor] : visitors_) {
    if (visitor.joins) agreement_.members.push_back(rank);
  }
  std::ranges::sort(agreement_.members);
  ++round_;
  for (auto& [rank, visitor] : visitors_) {
    visitor.accepted = false;
    if (!visitor.joins) continue;
    send(*visitor.connection, {.kind = Kind::kDecision,
                               .round = round_,
                               .nonce = agreement_.nonce,
                               .port = agreement_.port,
                               .members = agreement_.members});
  }
  check_accepted();
}

void Survivors::check_accepted() {
  for (const auto& [rank, visitor] : visitors_) {
    if (visitor.joins && !visitor.accepted) return;
  }
  for (auto& [rank, visitor] : visitors_) {
    if (visitor.joins) send(*visitor.connection, {.kind = Kind::kCommit, .round = round_});
  }
  commit();
}

void Survivors::commit() {
  phase_ = Phase::kMeeting;
  probing_.cancel();
  tell([this](SurvivorResults& results) { results.agreement = agreement_; });
}

void Survivors::opened() {
  if (phase_ != Phase::kMeeting) return;
  opened_ = true;
  if (leader_ == self_.own.rank) return check_opened();
  if (!to_leader_) return lose();
  send(*to_leader_, {.kind = Kind::kOpened, .nonce = agreement_.nonce});
}

void Survivors::check_opened() {
  if (phase_ != Phase::kMeeting || leader_ != self_.own.rank || !opened_) return;
  for (const int member : agreement_.members) {
    if (member == self_.own.rank) continue;
    const auto found = visitors_.find(member);
    if (found == visitors_.end() || !found->second.accepted) return lose();
    if (!found->second.opened) return;
  }
  for (auto& [rank, visitor] : visitors_) {
    if (visitor.accepted) send(*visitor.connection, {.kind = Kind::kDone, .nonce = agreement_.nonce});
  }
  finish_done();
}

void Survivors::finish_done() {
  done_ = agreement_;
  tell([](SurvivorResults& results) { results.done = true; });
  end();
  std::vector<int> late;
  for (const auto& [rank, visitor] : visitors_) {
    if (!std::ranges::binary_search(done_.members, rank)) late.push_back(rank);
  }
  for (const int rank : late) refuse(rank, gone_on(rank));
}

// A member was lost while the new communicator was made, or the leader before it said that all are through.
void Survivors::lose() {
  if (refuse_meeting_) {
    // Those who wait for it at the root must not do so until they give up.
    std::exchange(refuse_meeting_,
                  nullptr)({ErrorCode::kRemote, Error::kNoPeer, "a survivor was lost while the others met"});
  }
  for (auto& [rank, visitor] : visitors_) {
    if (visitor.accepted) visitor.connection->linger();
  }
  std::erase_if(visitors_, [](const auto& entry) { return entry.second.accepted; });
  tell([](SurvivorResults& results) { results.lost = true; });
}

}  // namespace tutti
