#include "bootstrap/complaint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "bootstrap/connection.h"
#include "bootstrap/control_plane.h"
#include "bootstrap/host.h"
#include "bootstrap/introduction.h"
#include "bootstrap/reach_root.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kPatience(5000);

}  // namespace

void complain(EventLoop& loop, const Membership& membership, const Config& config, const Error& error,
              RootServer* own_root, Deadline deadline) {
  deadline = std::min<Deadline>(deadline, Clock::now() + kPatience);
  const Poison complaint{
      ErrorCode::kRemote, membership.rank,
      fmt::format("rank {} ({} pid {}) cannot take part: {}", membership.rank, host_name(), ::getpid(), error.what())};
  if (own_root != nullptr) {
    own_root->refuse(complaint);
    return own_root->wait_until_told(membership.ranks - 1, deadline);
  }
  try {
    ReachedRoot reached = reach_root(loop, membership, config, nullptr, deadline);
    std::shared_ptr<Connection> connection;
    std::promise<void> heard;
    loop.call([&] {
      connection = std::make_shared<Connection>(loop, std::move(reached.socket), kMaxIntroduction);
      connection->start([](FrameType, std::span<const std::byte>) {}, [&](const std::string&) { heard.set_value(); });
      connection->send(FrameType::kRefused, complaint.encode());
    });
    heard.get_future().wait_until(deadline);
    loop.call([&] { connection->close(); });
  } catch (const Error&) {
    // The root is not there either.
  }
}

void ControlPlane::complain(Membership membership, const Config& config, const Error& error) {
  if (membership.ranks == 1) return;
  try {
    const Deadline deadline = Clock::now() + kPatience;
    const std::shared_ptr<Process> process = Process::get();
    std::unique_ptr<RootServer> root;
    if (membership.rank == 0 || !membership.root_listens) root = RootServer::take_pending(membership.nonce);
    if (!root && membership.root_listens && membership.rank == 0) {
      root = RootServer::open(process, membership, config, deadline);
    }
    if (membership.rank != 0) complete_membership(membership, deadline);
    tutti::complain(process->loop(), membership, config, error, root.get(), deadline);
  } catch (const Error&) {
    // Nobody can be told.
  }
}

}  // namespace tutti
