#include "bootstrap/reach_root.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <optional>

#include "base/log.h"
#include "base/net/interfaces.h"
#include "bootstrap/dialer.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause(10);
constexpr milliseconds kLongestPause(1000);
constexpr milliseconds kDialPatience(10000);
// A refusal or a closed port counts only after this long: the root of an earlier meeting may just be closing.
constexpr milliseconds kCertainty(3000);

std::vector<SocketAddress> resolve_all(const Membership& membership, Family family, std::string& trouble) {
  std::vector<SocketAddress> addresses;
  for (const HostPort& root : membership.roots) {
    try {
      const std::vector<SocketAddress> found = resolve(root, family);
      addresses.insert(addresses.end(), found.begin(), found.end());
    } catch (const Error& error) {
      trouble = error.what();
    }
  }
  return connect_order(addresses, read_interfaces());
}

Dialer::Outcome dial(EventLoop& loop, std::vector<SocketAddress> addresses, const Membership& membership,
                     Deadline deadline) {
  const Hello hello{Purpose::kMeet, static_cast<std::uint32_t>(membership.rank), 0,
                    static_cast<std::uint32_t>(membership.ranks), communicator_name(membership.nonce, membership.job)};
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  std::promise<Dialer::Outcome> outcome;
  std::future<Dialer::Outcome> result = outcome.get_future();
  std::optional<TroubleHook> hook;  // there until the outcome is
  const auto done = [&](Dialer::Outcome ended) {
    if (!hook) return;
    hook.reset();
    outcome.set_value(std::move(ended));
  };
  loop.call([&] {
    hook.emplace(loop, [&](const Error& error) {
      Dialer::Outcome ended;
      ended.exhausted = true;
      ended.trouble = error.what();
      done(std::move(ended));
    });
    try {
      Dialer::start(loop, std::move(addresses), hello, membership.secret,
                    std::clamp(left, milliseconds(1), kDialPatience), done);
    } catch (...) {
      hook.reset();
      throw;
    }
  });
  while (!loop.wait(result, Clock::now() + kDialPatience)) {
  }
  return result.get();
}

// The same for people: with the place where the address was found, if that may be out of date.
std::string root_place(const Membership& membership) {
  const std::string address = root_text(membership);
  return membership.id_place.empty() ? address : fmt::format("{}, as {} says", address, membership.id_place);
}

}  // namespace

std::string root_text(const Membership& membership) {
  std::string text;
  for (const HostPort& root : membership.roots) text += (text.empty() ? "" : ", ") + root.text();
  return text;
}

bool is_cut_off(const Membership& membership, const Config& config) try {
  if (!is_loopback_down(read_interfaces())) return false;
  std::string trouble;
  const std::vector<SocketAddress> addresses = resolve_all(membership, interface_rules(config).family, trouble);
  return !addresses.empty() &&
         std::ranges::all_of(addresses, [](const SocketAddress& address) { return address.is_loopback(); });
} catch (const Error&) {
  return false;  // whatever keeps this rank from looking shows when it connects
}

ReachedRoot reach_root(EventLoop& loop, Membership& membership, const Config& config,
                       std::span<const SocketAddress> own, Deadline deadline, MeetingWatch* watch) {
  const Clock::time_point began = Clock::now();
  const auto seconds_since = [](Clock::time_point when) {
    return std::chrono::duration<double>(Clock::now() - when).count();
  };
  const std::string who = fmt::format("communicator \"{}\": rank {}", membership.name, membership.rank);
  Clock::time_point unwelcome_since = Clock::time_point::max();  // never yet
  std::string rejection;
  ErrorCode rejection_code = ErrorCode::kUnauthorized;
  milliseconds pause = kFirstPause;
  const auto waits = [&](const std::string& why) {
    if (watch != nullptr) watch->waits(fmt::format("for the root, rank 0, at {}: {}", root_place(membership), why));
  };
  std::string last_trouble;  // of an attempt before
  for (;;) {
    std::string trouble;
    if (last_trouble.empty()) waits("its name is being looked up");
    std::vector<SocketAddress> addresses = own.empty()
                                               ? resolve_all(membership, interface_rules(config).family, trouble)
                                               : std::vector(own.begin(), own.end());
    Dialer::Outcome outcome;
    if (!addresses.empty()) {
      if (last_trouble.empty()) waits("no answer yet: it is stopped, or packets to it are lost");
      outcome = dial(loop, std::move(addresses), membership, deadline);
      if (outcome.socket) return {std::move(outcome.socket), outcome.address};
      trouble = outcome.trouble;
    }
    if (renew_id(membership)) {
      log_info("{}: {} says by now that the root is at {}", who, membership.id_place, root_text(membership));
      unwelcome_since = Clock::time_point::max();
      rejection.clear();
      last_trouble.clear();
      pause = kFirstPause;
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (outcome.rejected) {
      rejection = trouble;
      rejection_code = outcome.code;
    }
    // An id's root is open before anybody has the id: where nobody listens, it is over, and what it says is final.
    const bool gone = outcome.all_refused && !membership.root_listens;
    const bool final = outcome.code == ErrorCode::kMismatch && !membership.root_listens;
    const bool unwelcome = outcome.rejected || gone;
    unwelcome_since = unwelcome ? std::min(unwelcome_since, now) : Clock::time_point::max();
    // What an earlier run has left is replaced when rank 0 comes.
    const bool certain = now - kCertainty > unwelcome_since && !membership.reread_id;
    if (final || certain || now >= deadline) {
      if (!rejection.empty()) {
        throw Error(rejection_code,
                    fmt::format("{} was turned away by the root at {}: {}", who, root_place(membership), rejection), 0);
      }
      if (gone && membership.reread_id) {
        throw Error(ErrorCode::kTimeout,
                    fmt::format("{}: nobody waits at {}, and that has not changed within {:.1f} s: an earlier run has "
                                "left it there. Is rank 0 running? Use a new key for every communicator",
                                who, root_place(membership), seconds_since(began)),
                    0);
      }
      if (gone) {
        throw Error(ErrorCode::kRemote,
                    fmt::format("{}: nobody waits at {} any more: the unique id was used already, or the process that "
                                "made it has ended. Make a new id for every communicator",
                                who, root_text(membership)),
                    0);
      }
      throw Error(ErrorCode::kTimeout,
                  fmt::format("{} could not reach the root at {} within {:.1f} s: {}. Is rank 0 running, and is this "
                              "its address? TUTTI_MEET_TIMEOUT sets how long ranks wait",
                              who, root_place(membership), seconds_since(began), trouble),
                  0);
    }
    waits(trouble);
    last_trouble = std::move(trouble);
    loop.pause(std::chrono::duration_cast<milliseconds>(std::min<Clock::duration>(deadline - now, pause)));
    // Ranks that began together spread out.
    pause = std::min(pause * 2 + milliseconds(membership.rank % 8), kLongestPause);
  }
}

}  // namespace tutti
