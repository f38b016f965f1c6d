#include "bootstrap/control_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry(200);
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
  if (data_handler_) return data_handler_(peer, std::move(socket), false);
  if (early_data_.size() < kEarlyData) early_data_.push_back({peer, std::move(socket)});
}

void ControlScope::connect_data(int peer, std::function<void(const Poison&)> give_up) {
  const auto [dial, added] =
      data_dials_.try_emplace(peer, DataDial{nullptr, Timer(loop_), Clock::now(), std::move(give_up)});
  if (added) this->dial(peer);
}

void ControlScope::dial(int peer) {
  const Hello hello{Purpose::kData, static_cast<std::uint32_t>(self_.own.rank), static_cast<std::uint32_t>(peer),
                    static_cast<std::uint32_t>(self_.own.ranks), self_.own.communicator};
  data_dials_.at(peer).dialer = Dialer::start(
      loop_, connect_order(table_->addresses(peer), self_.interfaces), hello, self_.own.secret, kConnectPatience,
      [this, peer](Dialer::Outcome outcome) {
        DataDial& dial = data_dials_.at(peer);
        const std::shared_ptr<Dialer> over = std::move(dial.dialer);
        if (outcome.socket) {
          data_dials_.erase(peer);
          if (data_handler_) data_handler_(peer, std::move(outcome.socket.fd), true);
          return;
        }
        if (failed_) return;
        if (!outcome.exhausted && Clock::now() - dial.began < kConnectPatience) {
          dial.retry.arm_after(kRetry, [this, peer] { this->dial(peer); });
          return;
        }
        dial.give_up({ErrorCode::kSystem, peer,
                      fmt::format("{} of communicator \"{}\" cannot connect to {}: {}. TUTTI_SOCKET_IFNAME chooses the "
                                  "network",
                                  describe(self_.own.rank), self_.name, describe(peer), outcome.trouble)});
      });
}

}  // namespace tutti
