#include "bootstrap/complaint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <future>

#include "bootstrap/connection.h"
#include "bootstrap/control_plane.h"
#include "bootstrap/host.h"
#include "bootstrap/introduction.h"
#include "bootstrap/reach_root.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kPatience(5000);

std::shared_ptr<Process> process_for_complaint() {
  try {
    return Process::get();
  } catch (const std::exception&) {
    return Process::without_thread();
  }
}

// Null: this is not rank 0.
std::unique_ptr<RootServer> own_root_of(const std::shared_ptr<Process>& process, const Membership& membership,
                                        const Config& config, Deadline deadline) {
  std::unique_ptr<RootServer> root;
  if (membership.rank == 0 || !membership.root_listens) root = RootServer::take_pending(membership.nonce);
  if (!root && membership.root_listens && membership.rank == 0) {
    root = RootServer::open(process, membership, config, deadline);
  }
  return root;
}

}  // namespace

void complain(std::shared_ptr<Process> process, const Membership& given, const Config& config, const Error& error,
              RootServer* own_root, Deadline deadline) noexcept try {
  if (given.ranks == 1 || is_cut_off(given, config)) return;
  Membership membership = given;
  deadline = std::min<Deadline>(deadline, Clock::now() + kPatience);
  // Whoever has a process has tried for its root's port already.
  const Deadline port_deadline = process == nullptr ? deadline : Clock::now();
  if (process == nullptr) process = process_for_complaint();
  std::unique_ptr<RootServer> opened;
  if (own_root == nullptr) {
    opened = own_root_of(process, membership, config, port_deadline);
    own_root = opened.get();
  }
  const Poison complaint{
      ErrorCode::kRemote, membership.rank,
      fmt::format("rank {} ({} pid {}) cannot take part: {}", membership.rank, host_name(), ::getpid(), error.what())};
  if (own_root != nullptr) {
    own_root->refuse(complaint);
    return own_root->wait_until_told(membership.ranks - 1, deadline);
  }
  complete_membership(membership, deadline);
  EventLoop& loop = process->loop();
  ReachedRoot reached = reach_root(loop, membership, config, {}, deadline);
  std::shared_ptr<Connection> connection;
  std::promise<void> heard;
  const std::future<void> ended = heard.get_future();
  loop.call([&] {
    connection = std::make_shared<Connection>(loop, std::move(reached.socket), kMaxIntroduction);
    connection->start([](FrameType, std::span<const std::byte>) {}, [&](const std::string&) { heard.set_value(); });
    connection->send(FrameType::kRefused, complaint.encode());
  });
  loop.wait(ended, deadline);
  loop.call([&] {
    connection->close();
    connection.reset();
  });
} catch (const std::exception&) {
  // The root is not there either, or nobody can be told.
}

void ControlPlane::complain(const Membership& membership, const Config& config, const Error& error) {
  tutti::complain(nullptr, membership, config, error, nullptr, Clock::time_point::max());
}

}  // namespace tutti
