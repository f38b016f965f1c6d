#include "bootstrap/root_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "base/fork.h"
#include "base/log.h"
#include "base/net/handshake.h"
#include "base/net/interfaces.h"
#include "base/random.h"
#include "bootstrap/sockets.h"

namespace tutti {
namespace {

constexpr std::chrono::seconds kPortPatience(3);
constexpr std::chrono::milliseconds kPortPause(20);
constexpr std::chrono::milliseconds kToldPause(50);

// Guarded by ProcessLock::kPendingRoots.
struct Pending {
  std::map<Nonce, std::unique_ptr<RootServer>> servers;
};

// Ids that were made and not used yet keep their socket, and the control thread, until the process ends.
Pending& pending() {
  static Pending instance;
  return instance;
}

// Tries again for a moment while a port or a name is taken, perhaps by a program that is just ending.
template <class Open>
auto patiently(Deadline deadline, Open open) {
  for (;;) {
    try {
      return open();
    } catch (const Error&) {
      if (Clock::now() + kPortPause > deadline) throw;
    }
    std::this_thread::sleep_for(kPortPause);
  }
}

bool there_is_ipv6() {
  try {
    listen_on(SocketAddress::any(Family::kIpv6, 0));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

UniqueFd listen_anywhere(Family family, bool loopback_only, std::uint16_t port) {
  const auto address = [&](Family which) {
    return loopback_only ? SocketAddress::loopback(which, port) : SocketAddress::any(which, port);
  };
  if (family != Family::kAny) return listen_on(address(family));
  // The loopback addresses are two; one is enough. The wildcard address of IPv6 serves both, where there is IPv6.
  if (loopback_only) return listen_on(address(Family::kIpv4));
  try {
    return listen_on(address(Family::kIpv6));
  } catch (const Error& error) {
    // A port that is taken is taken: whoever has it for IPv6 would get between rank 0 and the ranks that come that way.
    if (port != 0 && there_is_ipv6()) throw;
    log_debug("{}; trying IPv4 alone", error.what());
    return listen_on(address(Family::kIpv4));
  }
}

UniqueFd listen_on_free_port(const Config& config, bool loopback_only) {
  const Family family = interface_rules(config).family;
  const PortRange ports = PortRange::unpack(config.integer(Setting::kPorts));
  if (ports.any() || loopback_only) return listen_anywhere(family, loopback_only, 0);
  // Ranks that begin together do not all try the first.
  std::uint16_t shift = 0;
  fill_randomly(std::as_writable_bytes(std::span(&shift, 1)));
  std::string trouble;
  for (int i = 0; i < ports.size(); ++i) {
    const auto port = static_cast<std::uint16_t>(ports.first + (shift + i) % ports.size());
    try {
      return listen_anywhere(family, loopback_only, port);
    } catch (const Error& error) {
      trouble = error.what();
    }
  }
  throw Error(ErrorCode::kSystem,
              fmt::format("no port of TUTTI_PORTS={} is free here: each rank of a host needs one, and "
                          "the root one more. The last try: {}",
                          config.text(Setting::kPorts), trouble));
}

std::vector<std::string> advertised_addresses(const Config& config, bool loopback_only, const SocketAddress* root) {
  InterfaceRules rules = interface_rules(config);
  if (loopback_only) return {SocketAddress::loopback(rules.family, 0).host()};
  if (root != nullptr) rules.root = *root;
  std::vector<std::string> addresses;
  for (const InterfaceRecord& record : choose_interfaces(read_interfaces(), rules)) {
    if (addresses.size() < kMaxAddresses) addresses.push_back(record.address.host());
  }
  return addresses;
}

RootServer::RootServer(std::shared_ptr<Process> process, UniqueFd listening, Root::Place place,
                       std::unique_ptr<Root::HandingOut> handing_out)
    : process_(std::move(process)) {
  const SocketAddress bound = local_address(listening.get());
  const bool any_ipv6 = bound.same_host(SocketAddress::any(Family::kIpv6, 0));
  if (any_ipv6) local_.push_back(SocketAddress::loopback(Family::kIpv6, bound.port()));
  if (any_ipv6 || bound.same_host(SocketAddress::any(Family::kIpv4, 0))) {
    local_.push_back(SocketAddress::loopback(Family::kIpv4, bound.port()));
  }
  if (local_.empty()) local_.push_back(bound);
  process_->loop().call([&] {
    root_ = std::make_shared<Root>(process_->loop(), std::move(listening), std::move(place));
    if (handing_out) root_->hand_out(std::move(handing_out));
  });
}

RootServer::~RootServer() {
  if (!process_->is_this()) {
    // The root, and the thread that serves it, are the parent's.
    static_cast<void>(new std::shared_ptr<Root>(std::move(root_)));
    return;
  }
  process_->loop().call([this] { Root::retire(process_->loop(), std::move(root_)); });
}

void RootServer::rename(const std::string& name) {
  process_->loop().call([&] { root_->rename(name); });
}

void RootServer::refuse(const Poison& why) {
  process_->loop().call([&] { root_->refuse(why); });
}

std::function<void(const Poison&)> RootServer::refusal() const {
  return [watched = std::weak_ptr<Root>(root_)](const Poison& why) {
    if (const auto root = watched.lock()) root->refuse(why);
  };
}

void RootServer::wait_until_told(int ranks, Deadline deadline) {
  const auto told = [this] {
    int told = 0;
    process_->loop().call([&] { told = root_->told(); });
    return told;
  };
  while (told() < ranks && Clock::now() < deadline) process_->loop().pause(kToldPause);
  // The last one has yet to read it.
  process_->loop().pause(kToldPause);
}

std::unique_ptr<RootServer> RootServer::open(std::shared_ptr<Process> process, const Membership& membership,
                                             const Config& config, Deadline deadline) {
  const std::uint16_t port = membership.roots.empty() ? std::uint16_t{0} : membership.roots.front().port;
  const Deadline patience = std::min<Deadline>(deadline, Clock::now() + kPortPatience);
  UniqueFd listening = patiently(patience, [&] {
    if (port == 0) return listen_on_free_port(config, membership.loopback_only);
    return listen_anywhere(interface_rules(config).family, membership.loopback_only, port);
  });
  std::unique_ptr<Root::HandingOut> offer;
  if (!membership.hand_out.empty()) {
    const SocketAddress here = local_address(listening.get());
    offer = patiently(patience, [&] {
      return std::unique_ptr<Root::HandingOut>(
          new Root::HandingOut{HandOut(membership.hand_out), hand_out_text(membership, {here.host_port()})});
    });
  }
  const Root::Place place{{0, membership.ranks, communicator_name(membership.nonce, membership.job), membership.secret},
                          membership.name,
                          true,
                          config.duration(Setting::kStallWarning)};
  return std::make_unique<RootServer>(std::move(process), std::move(listening), place, std::move(offer));
}

std::unique_ptr<RootServer> RootServer::take_pending(const Nonce& nonce) {
  const std::lock_guard lock(process_lock(ProcessLock::kPendingRoots));
  auto node = pending().servers.extract(nonce);
  if (node.empty()) return nullptr;
  // In a forked child the root is still the parent's.
  if (!node.mapped()->process_->is_this()) return nullptr;
  return std::move(node.mapped());
}

void RootServer::put_pending(const Nonce& nonce, std::unique_ptr<RootServer> server) {
  const std::lock_guard lock(process_lock(ProcessLock::kPendingRoots));
  pending().servers[nonce] = std::move(server);
}

}  // namespace tutti
