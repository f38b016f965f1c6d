#include "bootstrap/survivors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry(50);
// Who lives may stand still for a moment, and is no survivor when it has not answered in time: a short patience ends
// before, with an error that names it.
constexpr milliseconds kShortestDial(1000);
constexpr int kDialsInPatience = 4;
// A follower waits so much longer than its patience: the leader says who was missing.
constexpr milliseconds kGrace(500);

}  // namespace

Survivors::Survivors(EventLoop& loop, Self self)
    : loop_(loop),
      self_(std::move(self)),
      expiry_(loop),
      retry_(loop),
      probing_(loop),
      heartbeat_(loop, self_.silence) {}

Survivors::~Survivors() {
  drop_connections();
  for (auto& [rank, visitor] : visitors_) visitor.connection->linger();
}

void Survivors::begin(SurvivorResults& results, Deadline deadline) {
  results_ = &results;
  deadline_ = deadline;
  earlier_ = {};
  round_ = 0;
  root_.reset();
  refuse_meeting_ = nullptr;
  gone_.clear();
  dead_.clear();
  opened_ = false;
  expiry_.arm(deadline, [this] { expire(); });
  candidate_ = 0;
  seek();
}

void Survivors::again() {
  if (results_ == nullptr || phase_ != Phase::kMeeting) return;
  drop_connections();
  // Those who were part of it find out by themselves; others have come since, to begin anew.
  std::erase_if(visitors_, [](auto& entry) {
    if (entry.second.accepted) entry.second.connection->linger();
    return entry.second.accepted;
  });
  earlier_ = opened_ ? agreement_.nonce : Nonce{};
  root_.reset();
  refuse_meeting_ = nullptr;
  gone_.clear();
  dead_.clear();
  opened_ = false;
  candidate_ = 0;
  tell([](SurvivorResults& results) {
    results.leads = false;
    results.agreement.reset();
    results.lost = false;
  });
  seek();
}

void Survivors::end() {
  expiry_.cancel();
  drop_connections();
  results_ = nullptr;
  phase_ = Phase::kIdle;
  // A rank that was part of the call and is no more must not be waited for.
  std::erase_if(visitors_, [](auto& entry) {
    if (entry.second.accepted) entry.second.connection->linger();
    return entry.second.accepted;
  });
}

// ---- those who come here

void Survivors::visit(int rank, ProvenSocket socket) {
  if (rank < 0 || rank >= self_.own.ranks || rank == self_.own.rank) return;
  if (const auto old = visitors_.find(rank); old != visitors_.end()) {
    const bool accepted = old->second.accepted;
    old->second.connection->close();
    visitors_.erase(old);
    if (phase_ == Phase::kMeeting && accepted) lose();
  }
  const auto connection = connect(std::move(socket));
  visitors_[rank] = {.connection = connection};
  connection->start(
      [this, rank](FrameType type, std::span<const std::byte> payload) { hear_visitor(rank, type, payload); },
      [this, rank](const std::string&) { visitor_ended(rank); });
}

void Survivors::hear_visitor(int rank, FrameType type, std::span<const std::byte> payload) {
  if (type != FrameType::kSurvivor) return;
  const SurvivorMessage message = SurvivorMessage::decode(payload, self_.own.ranks);
  Visitor& visitor = visitors_.at(rank);
  switch (message.kind) {
    case Kind::kJoin:
      visitor.joins = true;
      visitor.earlier = message.nonce;
      return receive_join(rank);
    case Kind::kLead:
      if (!done_.members.empty() && !std::ranges::binary_search(done_.members, rank))
        return refuse(rank, gone_on(rank));
      // Two believe that they lead when one of them could not be reached for a while: the lower one does.
      if (leads() && rank < self_.own.rank) {
        log_debug("rank {} leads the survivors, not rank {}", rank, self_.own.rank);
        gone_.erase(rank);
        redirect_joined(rank);
        drop_connections();
        tell([](SurvivorResults& results) { results.leads = false; });
        candidate_ = 0;
        seek();
      }
      return;
    case Kind::kAccept:
      if (phase_ != Phase::kDeciding || message.round != round_) return;
      visitor.accepted = true;
      return check_accepted();
    case Kind::kOpened:
      if (message.nonce != agreement_.nonce) return;
      visitor.opened = true;
      return check_opened();
    default:
      return;
  }
}

void Survivors::receive_join(int rank) {
  Visitor& visitor = visitors_.at(rank);
  if (!done_.members.empty()) {
    if (!std::ranges::binary_search(done_.members, rank)) return refuse(rank, gone_on(rank));
    if (visitor.earlier == done_.nonce) {
      // It was lost between the last words: the agreement that it takes for lost has gone well.
      return send(*visitor.connection, {.kind = Kind::kDone, .nonce = done_.nonce});
    }
  }
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kSeeking:
    case Phase::kMeeting:
      return;  // until this rank calls, knows its leader, or is through
    case Phase::kFollowing:
      return send(*visitor.connection, {.kind = Kind::kRedirect, .leader = leader_});
    case Phase::kLeading:
      send(*visitor.connection, {.kind = Kind::kWelcome});
      return advance();
    case Phase::kDeciding:
      send(*visitor.connection, {.kind = Kind::kWelcome});
      return decide();
  }
}

void Survivors::visitor_ended(int rank) {
  const auto found = visitors_.find(rank);
  if (found == visitors_.end()) return;
  const Visitor visitor = std::move(found->second);
  visitors_.erase(found);
  visitor.connection->close();
  if (leads() && visitor.joins) {
    phase_ = Phase::kLeading;
    probe(rank);
  } else if (phase_ == Phase::kMeeting && visitor.accepted) {
    lose();
  }
}

void Survivors::refuse(int rank, const Poison& why) {
  const auto found = visitors_.find(rank);
  send(*found->second.connection, {.kind = Kind::kRefused, .refusal = why});
  found->second.connection->linger();
  visitors_.erase(found);
}

Poison Survivors::gone_on(int rank) const {
  return {ErrorCode::kRemote, rank,
          fmt::format("the other ranks of communicator \"{}\" went on without {}", self_.name, self_.describe(rank))};
}

// ---- looking for the leader

void Survivors::seek() {
  phase_ = Phase::kSeeking;
  for (; candidate_ < self_.own.rank; ++candidate_) {
    if (!self_.has_left(candidate_) && !gone_.contains(candidate_)) return dial(candidate_);
  }
  lead();
}

void Survivors::dial(int rank) {
  dialer_ = Dialer::start(loop_, self_.addresses(rank), hello_to(rank), self_.own.secret, dial_patience(),
                          [this, rank](Dialer::Outcome outcome) {
                            const std::shared_ptr<Dialer> over = std::move(dialer_);
                            if (outcome.socket) return follow(rank, std::move(outcome.socket));
                            log_debug("rank {} is no survivor: {}", rank, outcome.trouble);
                            gone_.insert(rank);
                            seek();
                          });
}

void Survivors::follow(int rank, ProvenSocket socket) {
  phase_ = Phase::kFollowing;
  leader_ = rank;
  welcomed_ = false;
  to_leader_ = connect(std::move(socket));
  to_leader_->start([this](FrameType type, std::span<const std::byte> payload) { hear_leader(type, payload); },
                    [this](const std::string&) { leader_ended(); });
  send(*to_leader_, {.kind = Kind::kJoin, .nonce = earlier_});
  redirect_joined(rank);
}

void Survivors::redirect_joined(int leader) {
  for (auto& [rank, visitor] : visitors_) {
    if (visitor.joins) send(*visitor.connection, {.kind = Kind::kRedirect, .leader = leader});
  }
}

void Survivors::hear_leader(FrameType type, std::span<const std::byte> payload) {
  if (type != FrameType::kSurvivor) return;
  const SurvivorMessage message = SurvivorMessage::decode(payload, self_.own.ranks);
  switch (message.kind) {
    case Kind::kWelcome:
      welcomed_ = true;
      return;
    case Kind::kRedirect: {
      if (phase_ != Phase::kFollowing) return;
      leave_leader();
      phase_ = Phase::kSeeking;
      gone_.erase(message.leader);
      candidate_ = 0;
      retry_.arm_after(kRetry, [this] { seek(); });
      return;
    }
    case Kind::kDecision:
      if (phase_ != Phase::kFollowing || !std::ranges::binary_search(message.members, self_.own.rank)) return;
      round_ = message.round;
      agreement_ = {message.members, message.nonce, leader_, message.port};
      return send(*to_leader_, {.kind = Kind::kAccept, .round = round_});
    case Kind::kCommit:
      if (phase_ == Phase::kFollowing && message.round == round_ && !agreement_.members.empty()) commit();
      return;
    case Kind::kDone:
      // Also after this rank has begun to agree anew, when the last words of the leader were lost.
      if (message.nonce == agreement_.nonce && (opened_ || message.nonce == earlier_)) finish_done();
      return;
    case Kind::kRefused:
      return fail(message.refusal);
    default:
      return;
  }
}

void Survivors::leader_ended() {
  leave_leader();
  if (phase_ == Phase::kMeeting) {
    if (opened_) lose();
    return;
  }
  if (phase_ != Phase::kFollowing) return;
  gone_.insert(leader_);
  candidate_ = 0;
  seek();
}

void Survivors::leave_leader() {
  if (to_leader_) to_leader_->linger();
  to_leader_.reset();
}

// ---- the end of patience

// Those who live and have not called, as far as this rank knows; `only`: the rank, when it is one.
std::string Survivors::absent(int* only) const {
  std::string absent;
  const auto add = [&](int rank) {
    if (only != nullptr) *only = absent.empty() ? rank : Error::kNoPeer;
    absent += (absent.empty() ? "" : ", ") + self_.describe(rank);
  };
  if (leads()) {
    for (int rank = self_.own.rank + 1; rank < self_.own.ranks; ++rank) {
      if (!joined(rank) && !self_.has_left(rank) && !dead_.contains(rank)) add(rank);
    }
  } else if (phase_ == Phase::kFollowing && !welcomed_) {
    add(leader_);
  } else if (phase_ == Phase::kSeeking && dialer_) {
    add(candidate_);
  }
  return absent;
}

std::string Survivors::waits() const {
  if (const std::string late = absent(); !late.empty())
    return "for " + late + ": no shrink() there yet, or it is stopped";
  if (phase_ == Phase::kFollowing) {
    return fmt::format("for {}, which leads the survivors and waits for others", self_.describe(leader_));
  }
  return "for the other survivors";
}

void Survivors::expire() {
  if (results_ == nullptr || phase_ == Phase::kMeeting) return;  // which has a deadline of its own
  if (phase_ == Phase::kFollowing && welcomed_ && Clock::now() < deadline_ + kGrace) {
    expiry_.arm(deadline_ + kGrace, [this] { expire(); });
    return;
  }
  int only = Error::kNoPeer;
  const std::string late = absent(&only);
  const std::string why = late.empty() ? "the survivors could not agree in time"
                                       : fmt::format("{} live{} but did not call shrink() in time", late,
                                                     only == Error::kNoPeer ? "" : "s");
  fail({ErrorCode::kTimeout, only, fmt::format("shrink of communicator \"{}\": {}", self_.name, why)});
}

void Survivors::fail(const Poison& why) {
  if (leads()) {
    std::vector<int> told;
    for (const auto& [rank, visitor] : visitors_) {
      if (visitor.joins) told.push_back(rank);
    }
    for (const int rank : told) refuse(rank, why);
  }
  tell([&why](SurvivorResults& results) { results.failure = why; });
  end();
}

void Survivors::drop_connections() {
  if (dialer_) dialer_->cancel();
  dialer_.reset();
  leave_leader();
  for (auto& [rank, probe] : probes_) {
    if (probe.dialer) probe.dialer->cancel();
    if (probe.connection) probe.connection->linger();
  }
  probes_.clear();
  probing_.cancel();
  retry_.cancel();
}

// ---- signs of life

void Survivors::beat(bool overslept) {
  const Clock::time_point now = Clock::now();
  const Frame frame = make_frame(FrameType::kHeartbeat);
  const auto silent = [&](Connection& connection) {
    if (overslept) connection.forget_silence();
    connection.send(frame);
    return now - connection.last_heard() > self_.silence && !overslept;
  };
  std::vector<int> lost;
  for (auto& [rank, visitor] : visitors_) {
    if (silent(*visitor.connection)) lost.push_back(rank);
  }
  for (const int rank : lost) {
    const auto found = visitors_.find(rank);
    if (found == visitors_.end()) continue;
    send(*found->second.connection, {.kind = Kind::kRefused, .refusal = gone_on(rank)});
    found->second.connection->linger();
    visitor_ended(rank);
  }
  lost.clear();
  for (auto& [rank, probe] : probes_) {
    if (probe.connection && silent(*probe.connection)) lost.push_back(rank);
  }
  for (const int rank : lost) probe_ended(rank);
  if (to_leader_ && silent(*to_leader_)) leader_ended();
  beating_ = false;
  if (!visitors_.empty() || !probes_.empty() || to_leader_) watch();
}

void Survivors::watch() {
  if (std::exchange(beating_, true)) return;
  heartbeat_.arm([this](bool overslept) { beat(overslept); });
}

milliseconds Survivors::dial_patience() const {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now());
  return std::min(self_.silence, std::max(kShortestDial, left / kDialsInPatience));
}

std::shared_ptr<Connection> Survivors::connect(ProvenSocket socket) {
  watch();
  return std::make_shared<Connection>(loop_, std::move(socket), SurvivorMessage::max_bytes(self_.own.ranks));
}

Hello Survivors::hello_to(int rank) const {
  return {Purpose::kSurvivors, static_cast<std::uint32_t>(self_.own.rank), static_cast<std::uint32_t>(rank),
          static_cast<std::uint32_t>(self_.own.ranks), self_.own.communicator};
}

void Survivors::tell(const std::function<void(SurvivorResults&)>& change) {
  if (results_ == nullptr) return;
  const std::lock_guard lock(results_->mutex);
  change(*results_);
  results_->changed.notify_all();
}

void Survivors::send(Connection& connection, const SurvivorMessage& message) {
  connection.send(FrameType::kSurvivor, message.encode());
}

}  // namespace tutti
