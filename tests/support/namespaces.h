#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

// Linux namespaces of a test: of network, mounts or host name. They live as long as this object, held by a process that
// dies with the test, so that nothing is left behind however the test ends. Not for tests with threads of their own.
class Namespace {
 public:
  // Why this user or kernel cannot make namespaces with cables between them; nothing when they can.
  static std::optional<std::string> refusal();

  // kinds: CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS; what is not among them is as in `outer`, or as around the test.
  // The commands are run inside, by sh; a failure throws.
  explicit Namespace(int kinds, const std::string& commands = "", const Namespace* outer = nullptr);
  ~Namespace();
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;

  // Moves the calling process, which has one thread, inside.
  void enter() const;
  // Runs commands inside. Throws std::runtime_error when they fail.
  void run(const std::string& commands) const;
  // What they print.
  std::string output(const std::string& commands) const;
  // The process that is inside: `ip link set … netns <this>`.
  pid_t holder() const { return holder_; }
  // Other processes whose network is this one.
  std::vector<pid_t> residents() const;

 private:
  int kinds_;
  pid_t holder_ = -1;
};

// Hosts joined by a switch, each a namespace of network, mounts and host name, with a /dev/shm of its own: all they
// share is the kernel. Host i (from 0) is called host<i> and has a cable `eth0` with address 10.77.0.<i+1>/24 or
// fd77::<i+1>/64 or both, as asked.
class HostNetwork {
 public:
  enum class Addresses { kIpv4, kIpv6, kBoth };

  explicit HostNetwork(int hosts, Addresses addresses = Addresses::kIpv4);
  // Each host has its own kind.
  explicit HostNetwork(const std::vector<Addresses>& addresses);

  const Namespace& host(int index) const { return *hosts_[static_cast<std::size_t>(index)]; }
  Namespace& the_switch() { return *switch_; }

 private:
  std::unique_ptr<Namespace> switch_;
  std::vector<std::unique_ptr<Namespace>> hosts_;
};

}  // namespace tutti
