#include "bootstrap/membership.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "base/net/interfaces.h"
#include "base/rank_limit.h"
#include "base/text.h"
#include "base/users.h"
#include "bootstrap/find_membership.h"
#include "bootstrap/hand_out.h"
#include "bootstrap/id_text.h"
#include "bootstrap/secret.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// Ports made from a job's identity lie below those that Linux gives to outgoing connections.
constexpr std::uint16_t kFirstDerivedPort = 20'000;
constexpr std::uint16_t kDerivedPorts = 12'000;

std::uint16_t derived_port(const Key& secret, std::string_view job, const PortRange& ports) {
  const auto hash = secret.authenticate("port", std::as_bytes(std::span(job.data(), job.size())));
  const unsigned value = std::to_integer<unsigned>(hash[0]) << 8 | std::to_integer<unsigned>(hash[1]);
  if (!ports.any()) return static_cast<std::uint16_t>(ports.first + static_cast<int>(value) % ports.size());
  return static_cast<std::uint16_t>(kFirstDerivedPort + value % kDerivedPorts);
}

// Ranks that meet at a fixed place with a secret that they already have agree on the nonce without talking.
Nonce derived_nonce(const Key& secret, std::string_view job) {
  const auto hash = secret.authenticate("nonce", std::as_bytes(std::span(job.data(), job.size())));
  Nonce nonce;
  std::copy_n(hash.begin(), nonce.size(), nonce.begin());
  return nonce;
}

Error no_secret(std::string_view why) {
  return Error(ErrorCode::kInvalidSetting,
               fmt::format("{}, and this job has no secret by which ranks on several hosts know each other. Set "
                           "TUTTI_SECRET or TUTTI_SECRET_FILE to the same secret on all ranks, or, on a network that "
                           "you trust, TUTTI_ALLOW_UNAUTHENTICATED=1",
                           why));
}

// MASTER_ADDR and a port, empty when there is no MASTER_ADDR.
std::vector<HostPort> master_address(const Config& config, const Environment& environment) {
  const char* host = environment("MASTER_ADDR");
  if (host == nullptr || trimmed(host).empty()) return {};
  if (config.given(Setting::kPort)) {
    return {{std::string(trimmed(host)), static_cast<std::uint16_t>(config.integer(Setting::kPort))}};
  }
  const char* port = environment("MASTER_PORT");
  if (port == nullptr || trimmed(port).empty()) {
    throw Error(ErrorCode::kInvalidSetting,
                fmt::format("MASTER_ADDR={} is set, but neither MASTER_PORT nor TUTTI_PORT is", host));
  }
  // torchrun's agent has put its store at MASTER_PORT itself.
  const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  const bool taken =
      agent != nullptr && (trimmed(agent) == "True" || trimmed(agent) == "true" || trimmed(agent) == "1");
  const auto number = whole_number<int>(trimmed(port));
  if (!number || *number < 1 || *number + (taken ? 1 : 0) > 65'535) {
    throw Error(ErrorCode::kInvalidSetting,
                fmt::format("MASTER_PORT={} is not allowed: a port is a whole number from 1 to {}; TUTTI_PORT can give "
                            "another one",
                            port, taken ? 65'534 : 65'535));
  }
  return {{std::string(trimmed(host)), static_cast<std::uint16_t>(*number + (taken ? 1 : 0))}};
}

// host:port, where the text has only a host; as it is if it has a port. An IPv6 address without brackets has none.
std::string with_port(const std::string& text, std::int64_t port) {
  const std::size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  if (bracketed ? text.ends_with(']') : colon == std::string::npos) return fmt::format("{}:{}", text, port);
  if (!bracketed && text.find(':') != colon) return fmt::format("[{}]:{}", text, port);
  return text;
}

// Whether rank 0's host can be this one. A name that does not resolve yet may turn out to be.
bool may_be_here(const std::vector<HostPort>& roots, std::span<const InterfaceRecord> here) {
  bool resolved = false;
  for (const HostPort& root : roots) {
    try {
      for (const SocketAddress& address : resolve(root, Family::kAny)) {
        if (is_own_address(address, here)) return true;
        resolved = true;
      }
    } catch (const Error&) {
      continue;
    }
  }
  return !resolved;
}

void meet_through_hand_out(Membership& membership, std::string_view meeting_place, const FoundSecret& secret) {
  if (may_be_anybody(::geteuid())) {
    throw Error(
        ErrorCode::kInvalidSetting,
        fmt::format(
            "this process is user {} of a user namespace, who may be anybody: rank 0 cannot know to whom it hands the "
            "job's secret. Set TUTTI_SECRET or TUTTI_SECRET_FILE to the same secret on all ranks, or run them "
            "as a user that has a number there",
            ::geteuid()));
  }
  membership.hand_out = hand_out_name(meeting_place);
  membership.loopback_only = true;
  membership.roots = {{"127.0.0.1", 0}};
  membership.secret = secret.key;
  if (membership.rank != 0) return;
  if (membership.secret.empty()) membership.secret = Key::random();
  membership.nonce = random_nonce();
}

void meet_at(Membership& membership, std::vector<HostPort> roots, const Launch& launch, const FoundSecret& secret,
             std::span<const InterfaceRecord> here) {
  if (secret.origin == SecretOrigin::kNone) {
    const std::string place = roots.front().text();
    if (launch.hosts == Launch::Hosts::kSeveral) {
      throw no_secret(fmt::format("{} has started ranks on several hosts", launch.launcher));
    }
    if (!may_be_here(roots, here))
      throw no_secret(fmt::format("rank 0 meets the others at {}, not on this host", place));
    meet_through_hand_out(membership, fmt::format("port {}", roots.front().port), secret);
    if (membership.rank == 0) {
      log_info(
          "no TUTTI_SECRET: rank 0 listens on this host's loopback only and hands a random key to processes of this "
          "user; set TUTTI_SECRET on all ranks to use several hosts");
    }
    return;
  }
  if (secret.origin == SecretOrigin::kUnauthenticated && membership.rank == 0) {
    log_warn("TUTTI_ALLOW_UNAUTHENTICATED=1: whoever reaches {} can join this job", roots.front().text());
  }
  membership.roots = std::move(roots);
  membership.secret = secret.key;
  membership.nonce = derived_nonce(secret.key, membership.job);
}

// Rank 0's port where nobody gave one.
std::uint16_t port_of_job(const Config& config, const Launch& launch, const FoundSecret& secret) {
  if (config.given(Setting::kPort)) return static_cast<std::uint16_t>(config.integer(Setting::kPort));
  return derived_port(secret.key, launch.job, PortRange::unpack(config.integer(Setting::kPorts)));
}

// Several hosts, and nobody said where rank 0 is: what the launcher's variables give away.
std::vector<HostPort> launcher_roots(const Config& config, const Launch& launch, const FoundSecret& secret,
                                     std::span<const InterfaceRecord> here) {
  if (launch.root_hosts.empty()) {
    throw Error(ErrorCode::kInvalidSetting,
                fmt::format("{}; set TUTTI_COMM_ID=host:port, or MASTER_ADDR and MASTER_PORT, on all ranks",
                            launch.launcher == kByHand
                                ? "TUTTI_RANK and TUTTI_NRANKS are set, but TUTTI_COMM_ID, which says where rank 0 "
                                  "runs, is not or is empty"
                                : launch.launcher + " does not say where rank 0 runs"));
  }
  const std::uint16_t port = port_of_job(config, launch, secret);
  std::vector<HostPort> roots;
  for (const std::string& host : launch.root_hosts) roots.push_back({host, port});
  if (launch.rank == 0 && !may_be_here(roots, here)) {
    throw Error(
        ErrorCode::kInvalidSetting,
        fmt::format("{} lets the others look for rank 0 at {}, but it runs on another host; set TUTTI_COMM_ID to "
                    "host:port of rank 0 on all ranks",
                    launch.launcher, roots.front().text()));
  }
  return roots;
}

void take_id(Membership& membership, const IdParts& parts) {
  membership.roots = parts.roots;
  membership.secret = parts.secret;
  membership.nonce = parts.nonce;
}

}  // namespace

Membership find_membership(const Config& config, const Environment& environment,
                           std::span<const InterfaceRecord> here) {
  const Launch launch = find_launch(config, environment);
  Membership membership;
  membership.rank = launch.rank;
  membership.ranks = launch.ranks;
  membership.job = launch.job;
  membership.origin = launch.origin;
  if (membership.ranks == 1) {
    log_info("a world of one rank: {}", launch.origin);
    return membership;
  }

  const std::string& id = config.text(Setting::kCommId);
  if (looks_like_id(id)) {
    take_id(membership, parse_id(id));
    return membership;
  }
  const FoundSecret secret = find_secret(config, launch.key);
  std::vector<HostPort> roots;
  if (!id.empty()) {
    // Not host:port, so it may be what a shell left of an id, and that has a secret in it.
    if (id.find('/') != std::string::npos) {
      throw Error(
          ErrorCode::kInvalidSetting,
          "TUTTI_COMM_ID is neither a unique id (it begins with \"tutti1/\") nor host:port; pass on exactly what "
          "to_text() gave, without quotes or blanks");
    }
    try {
      roots = {HostPort::parse(config.given(Setting::kPort) ? with_port(id, config.integer(Setting::kPort)) : id)};
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvalidSetting,
                  fmt::format("TUTTI_COMM_ID: {}{}", error.what(),
                              config.given(Setting::kPort) ? "" : "; TUTTI_PORT can give the port"));
    }
  } else {
    roots = master_address(config, environment);
  }
  if (roots.empty() && launch.hosts == Launch::Hosts::kOne && !launch.job.empty()) {
    if (secret.origin == SecretOrigin::kNone || !may_be_anybody(::geteuid())) {
      meet_through_hand_out(membership, "job " + launch.job + launch.key, secret);
      return membership;
    }
    // Nothing can be handed out, and with a secret nothing has to be.
    roots = {{"127.0.0.1", port_of_job(config, launch, secret)}};
  }
  if (roots.empty()) {
    if (launch.hosts == Launch::Hosts::kSeveral && secret.origin == SecretOrigin::kNone) {
      throw no_secret(fmt::format("{} has started ranks on several hosts", launch.launcher));
    }
    roots = launcher_roots(config, launch, secret, here);
  }
  meet_at(membership, std::move(roots), launch, secret, here);
  return membership;
}

Membership membership_from_environment(const Config& config) {
  return find_membership(
      config, [](const char* variable) { return std::getenv(variable); }, read_interfaces());
}

void check_rank(int rank, int ranks) {
  if (ranks > kMaxRanks) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} ranks are not allowed: a communicator has at most {}", ranks, kMaxRanks));
  }
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("rank {} of {} is not allowed: ranks are counted from 0", rank, ranks));
  }
}

bool renew_id(Membership& membership) {
  if (!membership.reread_id) return false;
  const IdParts parts = parse_id(membership.reread_id());
  if (parts.nonce == membership.nonce) return false;
  take_id(membership, parts);
  return true;
}

Membership membership_from_id(const UniqueId& id, int rank, int ranks) {
  if (id.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the unique id is empty: make one with UniqueId::create() on one rank");
  }
  check_rank(rank, ranks);
  Membership membership;
  membership.rank = rank;
  membership.ranks = ranks;
  membership.root_listens = false;
  take_id(membership, parse_id(id.to_text()));
  return membership;
}

void complete_membership(Membership& membership, Deadline deadline, MeetingWatch* watch) {
  if (membership.hand_out.empty() || membership.rank == 0) return;
  const Key own = membership.secret;
  take_id(membership, parse_id(ask_hand_out(membership.hand_out, deadline, watch)));
  // A secret that this rank was given is not replaced: when it is another one, the challenge says so.
  if (!own.empty()) membership.secret = own;
  membership.hand_out.clear();
}

std::string hand_out_text(const Membership& membership, const std::vector<HostPort>& listening) {
  return format_id({.nonce = membership.nonce, .secret = membership.secret, .roots = listening});
}

}  // namespace tutti
