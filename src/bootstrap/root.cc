#include "bootstrap/root.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/log.h"
#include "base/net/handshake.h"
#include "base/open_sockets.h"
#include "base/rank_limit.h"
#include "base/text.h"
#include "bootstrap/host.h"
#include "bootstrap/waiting_times.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kRetirement(2000);
constexpr std::chrono::milliseconds kPause(100);  // until there may be descriptors again
// What many ranks ask at the same time is found out once.
constexpr std::chrono::milliseconds kFresh(100);

// What differs between two lists "A=1 B=2".
std::string differences(const std::string& one, const std::string& other) {
  std::istringstream a(one);
  std::istringstream b(other);
  std::string in_a;
  std::string in_b;
  std::string text;
  while (a >> in_a, b >> in_b, a || b) {
    if (in_a != in_b) text += fmt::format("{}{} against {}", text.empty() ? "" : ", ", in_a, in_b);
    in_a.clear();
    in_b.clear();
  }
  return text;
}

}  // namespace

Root::Root(EventLoop& loop, UniqueFd listening, Place place)
    : loop_(loop),
      place_(std::move(place)),
      trouble_(loop,
               [this](const Error& error) {
                 refuse({ErrorCode::kRemote, 0, fmt::format("the root, rank 0, failed: {}", error.what())});
               }),
      listener_(std::in_place, loop, std::move(listening)),
      deadline_(loop),
      next_report_(loop),
      hand_out_pause_(loop) {
  listener_->when_exhausted([this](const std::string& trouble) {
    if (phase_ != Phase::kOver) fail(ErrorCode::kRemote, "the root, rank 0, " + trouble, 0);
  });
  listener_->admit(
      place_.own, [this](const Hello& hello) { return judge(hello); },
      [this](const Hello& hello, ProvenSocket socket) { greet(hello, std::move(socket)); });
}

Root::~Root() {
  for (auto& [number, guest] : guests_) guest.connection->linger();
}

void Root::retire(EventLoop& loop, std::shared_ptr<Root> root) {
  if (!root->failure_ || root->place_.one_port) return;
  struct Retired {
    Timer timer;
    std::shared_ptr<Root> root;
  };
  const auto retired = std::make_shared<Retired>(Retired{Timer(loop), std::move(root)});
  retired->timer.arm_after(kRetirement, [retired] { retired->root.reset(); });
}

void Root::hand_out(std::unique_ptr<HandingOut> what) {
  handing_out_ = std::move(what);
  hand_out_watch_.emplace(
      loop_, OpenSockets::open([this] { return ::fcntl(handing_out_->socket.descriptor(), F_DUPFD_CLOEXEC, 0); }));
  serve_hand_out();
}

void Root::serve_hand_out() {
  if (handing_out_->socket.serve(handing_out_->text)) {
    hand_out_watch_->when_readable([this] { serve_hand_out(); });
  } else {
    hand_out_pause_.arm_after(kPause, [this] { serve_hand_out(); });
  }
}

std::string Root::judge(const Hello& hello) const {
  if (hello.purpose != Purpose::kMeet) return "this is the root's port: ranks meet here and do nothing else";
  return "";
}

void Root::greet(const Hello& hello, ProvenSocket socket) {
  const std::uint64_t number = arrivals_++;
  Guest guest;
  guest.connection = std::make_shared<Connection>(loop_, std::move(socket), kMaxIntroduction);
  guest.rank = static_cast<int>(hello.client_rank);
  guest.ranks = static_cast<int>(hello.ranks);
  const auto connection = guest.connection;
  guests_.emplace(number, std::move(guest));
  connection->start(
      [this, number](FrameType type, std::span<const std::byte> payload) { receive(number, type, payload); },
      [this, number](const std::string& trouble) { ended(number, trouble); });
  if (failure_) {
    told_.insert(static_cast<int>(hello.client_rank));
    connection->send(failure_);
    connection->linger();
  }
}

void Root::receive(std::uint64_t number, FrameType type, std::span<const std::byte> payload) {
  Guest& guest = guests_.at(number);
  if (phase_ == Phase::kOver) return;
  switch (type) {
    case FrameType::kIntroduction: {
      if (guest.introduced) return;
      try {
        introduced(guest, payload);
      } catch (const Error& error) {
        return fail(error.code(), fmt::format("rank {} is not welcome: {}", guest.rank, error.what()), guest.rank);
      }
      if (phase_ != Phase::kGathering) return;
      by_rank_[guest.rank] = number;
      if (static_cast<int>(by_rank_.size()) == ranks_) assign();
      return;
    }
    case FrameType::kJoined:
      guest.joined = true;
      return;
    case FrameType::kReady:
      guest.ready = true;
      return;
    case FrameType::kMet:
      return met(guest);
    case FrameType::kWaiting:
      return answer(guest);
    case FrameType::kRefused: {
      ByteReader reader(payload, "the complaint of a rank");
      const Poison poison = Poison::decode(reader);
      return fail(poison.code, poison.reason, poison.peer);
    }
    default:
      return;
  }
}

void Root::introduced(Guest& guest, std::span<const std::byte> payload) {
  if (phase_ != Phase::kGathering) {
    guest.connection->send(FrameType::kRefused,
                           Poison{ErrorCode::kMismatch, guest.rank, "all ranks have met without this one"}.encode());
    guest.connection->linger();
    return;
  }
  guest.introduction = Introduction::decode(payload);
  guest.introduced = true;
  const std::string trouble = disagreement(guest);
  if (!trouble.empty()) return fail(ErrorCode::kMismatch, trouble, guest.rank);
  if (ranks_ == 0) {
    ranks_ = guest.ranks;
    began_ = Clock::now();
    if (place_.warning.count() > 0) next_report_.arm(began_ + ask_after(place_.warning, 0), [this] { report(); });
  }
  if (guest.introduction.patience_ms == kEndlessPatience) return;
  const Deadline patience_ends = Clock::now() + std::chrono::milliseconds(guest.introduction.patience_ms);
  if (patience_ends < patience_ends_) {
    patience_ends_ = patience_ends;
    deadline_.arm(patience_ends, [this] { expire(); });
  }
}

// Why a rank does not belong to those who are here; "" when it does.
std::string Root::disagreement(const Guest& guest) const {
  if (guest.ranks < 1 || guest.ranks > kMaxRanks || guest.rank < 0 || guest.rank >= guest.ranks) {
    return fmt::format("{} says that it is rank {} of {}: ranks count from 0, and there are at most {}",
                       describe(guest), guest.rank, guest.ranks, kMaxRanks);
  }
  if (by_rank_.empty()) return "";
  const auto same = by_rank_.find(guest.rank);
  const Guest& other = guests_.at(same != by_rank_.end() ? same->second : by_rank_.begin()->second);
  if (guest.ranks != ranks_) {
    return fmt::format("{} was started as one of {}, {} as one of {}: start all with the same number", describe(guest),
                       counted(static_cast<std::uint64_t>(guest.ranks), "rank"), describe(other), ranks_);
  }
  if (same != by_rank_.end()) {
    return fmt::format("a second rank {} came: {}, after {}: give every process a rank of its own", guest.rank,
                       describe(guest), describe(other));
  }
  if (guest.introduction.agreement != other.introduction.agreement) {
    return fmt::format("{} and {} have different settings: {}. Set them alike on all ranks", describe(guest),
                       describe(other),
                       differences(guest.introduction.agreement_text, other.introduction.agreement_text));
  }
  return "";
}

void Root::assign() {
  phase_ = Phase::kConnecting;
  // Before any rank can go on to another meeting at the same place. And whoever comes now has no business here.
  hand_out_watch_.reset();
  hand_out_pause_.cancel();
  handing_out_.reset();
  listener_.reset();
  RankTable table(ranks_);
  for (const auto& [rank, number] : by_rank_) {
    const Introduction& said = guests_.at(number).introduction;
    table.set(rank, said.host, said.pid, said.port);
  }
  Assignment assignment;
  assignment.nonce = random_nonce();
  for (const auto& [rank, number] : by_rank_) {
    assignment.parent = tree_parent(rank);
    assignment.table.clear();
    if (rank == 0) {
      ByteWriter writer;
      table.encode(writer);
      assignment.table = writer.take();
    } else {
      const Introduction& parent = guests_.at(by_rank_.at(assignment.parent)).introduction;
      assignment.parent_addresses = parent.host.addresses;
      assignment.parent_port = parent.port;
    }
    Connection& connection = *guests_.at(number).connection;
    connection.set_limit(std::max(kMaxIntroduction, RankTable::max_bytes(ranks_)));
    connection.send(FrameType::kAssignment, assignment.encode());
  }
}

void Root::met(Guest& guest) {
  if (phase_ != Phase::kConnecting || guest.met) return;
  guest.met = true;
  guest.connection->linger();
  if (++met_ < ranks_) return;
  phase_ = Phase::kOver;
  deadline_.cancel();
  next_report_.cancel();
  guests_.clear();
}

void Root::ended(std::uint64_t number, const std::string& trouble) {
  const auto found = guests_.find(number);
  Guest& guest = found->second;
  guest.connection->close();
  if (!guest.introduced) {
    const int rank = guest.rank;
    const bool refused_here = guest.connection->refused_here();
    guests_.erase(found);
    // It proved that it is a rank, and does not come again.
    if (refused_here && phase_ != Phase::kOver) {
      fail(ErrorCode::kRemote, fmt::format("the root, rank 0, lost its connection to rank {}: {}", rank, trouble),
           rank);
    }
  } else if (phase_ != Phase::kOver && !guest.met) {
    const std::string text = fmt::format("{} ended while the ranks were meeting{}{}: see its output", describe(guest),
                                         trouble.empty() ? "" : ": ", trouble);
    fail(ErrorCode::kRemote, text, guest.rank);
  }
}

void Root::fail(ErrorCode code, const std::string& reason, int peer) {
  phase_ = Phase::kOver;
  failure_ = make_frame(FrameType::kRefused, Poison{code, peer, reason}.encode());
  next_report_.cancel();
  deadline_.cancel();
  for (auto& [number, guest] : guests_) {
    told_.insert(guest.rank);
    guest.connection->send(failure_);
    guest.connection->linger();
  }
}

// A rank of this process says it itself.
void Root::report() {
  const bool said =
      std::ranges::any_of(guests_, [this](const auto& entry) { return is_of_this_process(entry.second); });
  const std::chrono::duration<double> waited = Clock::now() - began_;
  if (!said) log_warn("{}its root has waited {:.1f} s {}", title(), waited.count(), waits());
  next_report_.arm(began_ + ask_after(place_.warning, ++reports_), [this] { report(); });
}

bool Root::is_of_this_process(const Guest& guest) const {
  return guest.introduced && guest.introduction.pid == static_cast<std::uint32_t>(::getpid()) &&
         guest.introduction.host.name == host_name();
}

// A rank that has waited for long asks for whom.
void Root::answer(Guest& guest) {
  if (guest.met || ranks_ == 0) return;
  if (const auto now = Clock::now(); now - waits_at_ > kFresh) {
    waits_ = waits();
    waits_at_ = now;
  }
  ByteWriter writer;
  writer.text(cut_text(waits_, kMaxReasonBytes));
  guest.connection->send(FrameType::kWaiting, writer.take());
}

std::string Root::waits() const {
  if (phase_ == Phase::kGathering) {
    return fmt::format("for {}{}. Was every rank started, with the same root address?", missing(), turned_away());
  }
  return fmt::format("though all ranks are here: {}; it may be stopped or starved of processor time", in_the_way());
}

// Whoever is missing may be among them.
std::string Root::turned_away() const {
  if (!listener_ || listener_->turned_away() == 0) return "";
  const auto strangers = listener_->turned_away();
  return fmt::format("; {} {} turned away, the last because {}", counted(strangers, "connection"),
                     strangers == 1 ? "was" : "were", listener_->last_trouble());
}

void Root::expire() {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began_);
  int only = Error::kNoPeer;
  if (phase_ == Phase::kConnecting) {
    const std::string text =
        fmt::format("{}all ranks are here, but after {:.1f} s {}: it may be stopped or starved of processor time",
                    title(), static_cast<double>(waited.count()) / 1000, in_the_way(&only));
    return fail(ErrorCode::kTimeout, text, only);
  }
  std::string text = fmt::format("{}still waiting after {:.1f} s for {}", title(),
                                 static_cast<double>(waited.count()) / 1000, missing(&only));
  text += turned_away();
  text += ". Were they started, with the same root address? TUTTI_MEET_TIMEOUT sets how long ranks wait";
  fail(ErrorCode::kTimeout, text, only);
}

// "ranks 3, 7 (6 of 8 here)"; `only`: the one that is missing, when it is one.
std::string Root::missing(int* only) const {
  constexpr int kNamed = 16;
  std::string list;
  int count = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (by_rank_.contains(rank)) continue;
    if (++count <= kNamed) list += fmt::format("{}{}", list.empty() ? "" : ", ", rank);
    if (only != nullptr) *only = count == 1 ? rank : Error::kNoPeer;
  }
  if (count > kNamed) list += fmt::format(" and {} more", count - kNamed);
  return fmt::format("{} {} ({} of {} here)", count == 1 ? "rank" : "ranks", list, by_rank_.size(), ranks_);
}

// Who keeps the others from connecting; `only`: the rank, when it can be but one.
std::string Root::in_the_way(int* only) const {
  const auto guest = [this](int rank) -> const Guest& { return guests_.at(by_rank_.at(rank)); };
  // A parent has a lower number than its children: the first rank without a parent has one that is connected itself.
  for (int rank = 1; rank < ranks_; ++rank) {
    if (guest(rank).joined) continue;
    return fmt::format("{} has not connected to {}, or that one does not answer", describe(guest(rank)),
                       describe(guest(tree_parent(rank))));
  }
  // Everybody below the last rank that is not ready has said so.
  for (int rank = ranks_ - 1; rank >= 0; --rank) {
    if (guest(rank).ready) continue;
    if (only != nullptr) *only = rank;
    return describe(guest(rank)) + " says nothing more";
  }
  // Everybody above the first rank without the table has it.
  for (int rank = 0; rank < ranks_; ++rank) {
    if (guest(rank).met) continue;
    if (only != nullptr) *only = rank;
    return describe(guest(rank)) + " says nothing more";
  }
  return "";
}

std::string Root::title() const { return place_.name.empty() ? "" : fmt::format("communicator \"{}\": ", place_.name); }

std::string Root::describe(const Guest& guest) const {
  if (!guest.introduced) return fmt::format("rank {}", guest.rank);
  return fmt::format("rank {} ({} pid {})", guest.rank, guest.introduction.host.name, guest.introduction.pid);
}

}  // namespace tutti
