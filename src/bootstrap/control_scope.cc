#include "bootstrap/control_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry(200);
// Until a peer that does not answer is asked to open the connection.
constexpr milliseconds kFirstPatience(1000);
// Long enough for a peer's death to be noticed first, and to be the reason that everybody gets.
constexpr milliseconds kConnectPatience(5000);
constexpr milliseconds kBetweenLooks(1000);
constexpr std::size_t kEarlyData = 4096;
constexpr int kNoMember = -1;

}  // namespace

ControlScope::ControlScope(EventLoop& loop, Health& health, Self self)
    : loop_(loop), health_(health), self_(std::move(self)), survey_timer_(loop), data_timer_(loop) {}

ControlScope::~ControlScope() {
  for (auto& [peer, dial] : data_dials_) {
    if (dial.dialer) dial.dialer->cancel();
  }
}

std::string ControlScope::describe(int rank) const {
  return table_ ? table_->describe(rank) : fmt::format("rank {}", rank);
}

int ControlScope::rank_of(int tree_rank) const {
  const auto found = std::ranges::find(self_.members, tree_rank);
  return found == self_.members.end() ? kNoMember : static_cast<int>(found - self_.members.begin());
}

void ControlScope::fail(const Poison& poison) {
  if (std::exchange(failed_, true)) return;
  if (health_.fail(poison.code, poison.reason, poison.peer, Health::Reach::kThisRank)) {
    log_info("communicator \"{}\" rank {}: {}", self_.name, self_.own.rank, poison.reason);
  }
  if (self_.on_failure) self_.on_failure();
}

void ControlScope::learn_death(const Death& death, const std::string& observer) {
  const int dead = rank_of(death.rank);
  if (dead == kNoMember || failed_) return;
  const int seen_by = rank_of(death.observer);
  const std::string who = seen_by == kNoMember ? "another process, " + observer + "," : fmt::format("rank {}", seen_by);
  const std::string why =
      death.trouble.empty() ? "; its own output or its host's kernel log may say why" : ": " + death.trouble;
  if (dead == self_.own.rank) {
    return fail({ErrorCode::kRemote, dead,
                 fmt::format("the other ranks of communicator \"{}\" have given {} up, which is this one: its control "
                             "connection to {} ended{}",
                             self_.name, describe(dead), who, why)});
  }
  fail({ErrorCode::kRemote, dead,
        fmt::format("{} of communicator \"{}\" died: its control connection to {} ended{}. Start again, or shrink() to "
                    "go on without it",
                    describe(dead), self_.name, who, why)});
}

void ControlScope::describe_activities(int asker, Findings& findings) const {
  const int member = rank_of(asker);
  if (surveyed_.asked && member != kNoMember && member != self_.own.rank) surveyed_.asked(member);
  if (!surveyed_.describe) return;
  for (const Activity& activity : surveyed_.describe()) findings.add(activity, RankSet(self_.own.rank));
}

Survey ControlScope::survey_of(const Findings& findings, const RankTable& tree) const {
  Survey survey;
  RankSet known;
  for (const Findings::Finding& finding : findings.findings) {
    if (finding.ranks.ranges().back().second >= members() || finding.activity.waits_for >= members()) continue;
    survey.findings.findings.push_back(finding);
    known.add(finding.ranks);
  }
  for (const auto& [rank, observer] : findings.silent) {
    const int member = rank_of(rank);
    const int by = rank_of(observer);
    survey.silent.push_back({member, member == kNoMember ? tree.describe(rank) : describe(member),
                             by == kNoMember ? tree.describe(observer) : describe(by)});
    if (member != kNoMember) known.add(member);
  }
  const std::vector<int> heard = known.ranks();
  for (int rank = 0, next = 0; rank < members(); ++rank) {
    const bool is_known = next < static_cast<int>(heard.size()) && heard[static_cast<std::size_t>(next)] == rank;
    if (is_known) ++next;
    if (!is_known && health_.left_after(rank) == Health::kStillHere) survey.unknown.add(rank);
  }
  return survey;
}

Survivors& ControlScope::survivors(std::chrono::milliseconds silence) {
  if (!survivors_) {
    Survivors::Self self;
    self.own = self_.own;
    self.name = self_.name;
    self.silence = silence;
    self.addresses = [this](int rank) { return connect_order(table_->addresses(rank), self_.interfaces); };
    self.describe = [this](int rank) { return describe(rank); };
    self.has_left = [this](int rank) { return health_.left_after(rank) != Health::kStillHere; };
    survivors_.emplace(loop_, std::move(self));
  }
  return *survivors_;
}

void ControlScope::set_data_handler(ControlPlane::DataHandler handler) {
  data_handler_ = std::move(handler);
  for (DataSocket& early : std::exchange(early_data_, {})) data_handler_(early.peer, std::move(early.socket), false);
}

void ControlScope::set_data_watch(std::function<void()> watch) {
  data_watch_ = std::move(watch);
  look_after_data();
}

void ControlScope::look_after_data() {
  if (failed_) return;
  data_watch_();
  data_timer_.arm_after(kBetweenLooks, [this] { look_after_data(); });
}

void ControlScope::take_data(int peer, UniqueFd socket) {
  if (peer < 0 || peer >= self_.own.ranks || peer == self_.own.rank) return;
  // What this rank waited for.
  if (const auto found = data_dials_.find(peer);
      found != data_dials_.end() && !found->second.dialer && !found->second.ask) {
    data_dials_.erase(found);
  }
  if (data_handler_) return data_handler_(peer, std::move(socket), false);
  if (early_data_.size() < kEarlyData) early_data_.push_back({peer, std::move(socket)});
}

void ControlScope::connect_data(int peer, std::function<void(const std::string&)> ask,
                                std::function<void(const Poison&)> give_up) {
  const auto [dial, added] =
      data_dials_.try_emplace(peer, DataDial{nullptr, Timer(loop_), Clock::now(), std::move(ask), std::move(give_up)});
  if (added) this->dial(peer);
}

void ControlScope::call_back(int peer, const std::string& trouble, std::function<void(const Poison&)> give_up) {
  if (failed_ || !table_) return;
  const auto [found, added] =
      data_dials_.try_emplace(peer, DataDial{nullptr, Timer(loop_), Clock::now(), nullptr, std::move(give_up)});
  DataDial& dial = found->second;
  dial.of_peer = trouble;
  const bool waits = !added && dial.ask == nullptr && dial.dialer == nullptr;
  dial.ask = nullptr;
  if (!added && !waits) return;  // on its way: if it does not arrive, nothing will
  // Each asked the other one: both try once more.
  if (waits && data_waits_) data_waits_(peer, false);
  dial.retry.cancel();
  dial.began = Clock::now();
  this->dial(peer);
}

void ControlScope::dial(int peer) {
  const Hello hello{Purpose::kData, static_cast<std::uint32_t>(self_.own.rank), static_cast<std::uint32_t>(peer),
                    static_cast<std::uint32_t>(self_.own.ranks), self_.own.communicator};
  DataDial& dial = data_dials_.at(peer);
  dial.dialer = Dialer::start(loop_, connect_order(table_->addresses(peer), self_.interfaces), hello, self_.own.secret,
                              dial.ask ? kFirstPatience : kConnectPatience,
                              [this, peer](Dialer::Outcome outcome) { dialed(peer, std::move(outcome)); });
}

void ControlScope::dialed(int peer, Dialer::Outcome outcome) {
  DataDial& dial = data_dials_.at(peer);
  const std::shared_ptr<Dialer> over = std::move(dial.dialer);
  if (outcome.socket) {
    data_dials_.erase(peer);
    if (data_handler_) data_handler_(peer, std::move(outcome.socket.fd), true);
    return;
  }
  if (failed_) return;
  if (dial.ask && !outcome.connected && !outcome.exhausted) return wait_for_peer(peer, outcome.trouble);
  // Where somebody takes a connection there is a way, and the next attempt has more time for the challenge.
  if (outcome.connected) dial.ask = nullptr;
  if (!outcome.exhausted && Clock::now() - dial.began < kConnectPatience) {
    dial.retry.arm_after(kRetry, [this, peer] { this->dial(peer); });
    return;
  }
  give_up(dial, peer, outcome.trouble);
}

// The peer may be able to open the connection.
void ControlScope::wait_for_peer(int peer, const std::string& trouble) {
  DataDial& dial = data_dials_.at(peer);
  const auto ask = std::exchange(dial.ask, nullptr);
  dial.retry.arm_after(2 * kConnectPatience, [this, peer, trouble] {
    if (!failed_) give_up(data_dials_.at(peer), peer, trouble);
  });
  if (data_waits_) data_waits_(peer, true);
  log_info("{} of communicator \"{}\" cannot connect to {} and asks it to connect: {}", describe(self_.own.rank),
           self_.name, describe(peer), trouble);
  ask(trouble);
}

void ControlScope::give_up(const DataDial& dial, int peer, const std::string& trouble) const {
  const std::string back = dial.of_peer.empty() ? "it has not connected to this rank either"
                                                : "it says of its own attempts: " + dial.of_peer;
  dial.give_up({ErrorCode::kSystem, peer,
                fmt::format("{} of communicator \"{}\" cannot connect to {}: {}; {}. TUTTI_SOCKET_IFNAME chooses the "
                            "network, TUTTI_PORTS the ports that ranks listen on and a firewall must let in",
                            describe(self_.own.rank), self_.name, describe(peer), trouble, back)});
}

}  // namespace tutti
