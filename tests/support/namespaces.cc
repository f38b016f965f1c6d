#include "support/namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "support/child_process.h"

namespace tutti {
namespace {

constexpr const char* kCable =
    "ip link add tutti0 type veth peer name tutti1 && ip link add tutti2 type bridge && mount -t tmpfs tmpfs /mnt";

struct Kind {
  int flag;
  const char* file;
};
constexpr Kind kKinds[] = {{CLONE_NEWUTS, "uts"}, {CLONE_NEWNET, "net"}, {CLONE_NEWNS, "mnt"}};

// The life of a holder: what went wrong goes into the pipe, an empty text when all is there.
[[noreturn]] void hold(int kinds, const std::string& commands, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string trouble;
  if (::unshare(kinds) != 0) {
    trouble = std::string("unshare: ") + std::strerror(errno);
  } else if ((kinds & CLONE_NEWNS) != 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    trouble = std::string("mount: ") + std::strerror(errno);
  } else if (!commands.empty() && std::system(("set -e\n" + commands + "\n").c_str()) != 0) {
    trouble = "these commands fail: " + commands;
  }
  trouble += '\n';
  static_cast<void>(!::write(report, trouble.data(), trouble.size()));
  ::close(report);
  while (true) ::pause();
}

}  // namespace

std::optional<std::string> Namespace::refusal() {
  static const std::optional<std::string> reason = []() -> std::optional<std::string> {
    for (const char* program : {"ip", "mount"}) {
      if (std::system((std::string("command -v ") + program + " >/dev/null").c_str()) != 0) {
        return std::string("there is no ") + program + " command";
      }
    }
    try {
      const Namespace trial(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS, std::string("exec 2>/dev/null\n") + kCable);
    } catch (const std::exception& error) {
      return std::string("network namespaces with cables need root and a kernel that has them: ") + error.what();
    }
    return std::nullopt;
  }();
  return reason;
}

Namespace::Namespace(int kinds, const std::string& commands, const Namespace* outer)
    : kinds_(kinds | (outer != nullptr ? outer->kinds_ : 0)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  holder_ = ::fork();
  if (holder_ == 0) {
    ::close(ends[0]);
    if (outer != nullptr) outer->enter();
    hold(kinds, commands, ends[1]);
  }
  ::close(ends[1]);
  char text[512] = {};
  const ssize_t bytes = ::read(ends[0], text, sizeof(text) - 1);
  ::close(ends[0]);
  if (bytes == 1) return;
  ::kill(holder_, SIGKILL);
  ::waitpid(holder_, nullptr, 0);
  throw std::runtime_error(std::string("cannot make a namespace: ") + text);
}

Namespace::~Namespace() {
  ::kill(holder_, SIGKILL);
  ::waitpid(holder_, nullptr, 0);
}

void Namespace::enter() const {
  for (const Kind& kind : kKinds) {
    if ((kinds_ & kind.flag) == 0) continue;
    const UniqueFd fd(::open(("/proc/" + std::to_string(holder_) + "/ns/" + kind.file).c_str(), O_RDONLY | O_CLOEXEC));
    if (::setns(fd.get(), kind.flag) != 0) ::_exit(126);
  }
}

void Namespace::run(const std::string& commands) const { static_cast<void>(output(commands)); }

std::string Namespace::output(const std::string& commands) const {
  const Ended ended = run_program({.command = {"sh", "-c", "set -e\n" + commands}, .place = this});
  if (ended.code != 0) throw std::runtime_error("these commands fail: " + commands + "\n" + ended.text);
  return ended.text;
}

std::vector<pid_t> Namespace::residents() const {
  const auto network_of = [](const std::string& pid) {
    char link[64] = {};
    return ::readlink(("/proc/" + pid + "/ns/net").c_str(), link, sizeof(link) - 1) > 0 ? std::string(link) : "";
  };
  const std::string mine = network_of(std::to_string(holder_));
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || network_of(name) != mine) continue;
    if (const pid_t pid = std::stoi(name); pid != holder_) pids.push_back(pid);
  }
  return pids;
}

HostNetwork::HostNetwork(int hosts, Addresses addresses)
    : HostNetwork(std::vector<Addresses>(static_cast<std::size_t>(hosts), addresses)) {}

HostNetwork::HostNetwork(const std::vector<Addresses>& addresses) {
  switch_ = std::make_unique<Namespace>(CLONE_NEWNET, "ip link add br0 type bridge && ip link set br0 up");
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::string name = "host" + std::to_string(i);
    hosts_.push_back(std::make_unique<Namespace>(
        CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS,
        "echo " + name + " > /proc/sys/kernel/hostname; mount -t tmpfs tmpfs /dev/shm; ip link set lo up"));
    const std::string port = "port" + std::to_string(i);
    switch_->run("ip link add " + port + " type veth peer name eth0 netns " + std::to_string(hosts_.back()->holder()) +
                 "; ip link set " + port + " master br0 up");
    const std::string number = std::to_string(i + 1);
    std::string commands = "ip link set eth0 addrgenmode none 2>/dev/null || true; ip link set eth0 up; ";
    if (addresses[i] != Addresses::kIpv6) commands += "ip addr add 10.77.0." + number + "/24 dev eth0; ";
    if (addresses[i] != Addresses::kIpv4) commands += "ip addr add fd77::" + number + "/64 dev eth0 nodad; ";
    hosts_.back()->run(commands);
  }
}

}  // namespace tutti
