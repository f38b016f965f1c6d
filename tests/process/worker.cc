// One rank, as a program: does what its arguments say, one after the other, and prints what happened in lines that
// tests read. An Error of the library ends it with status 3 and one line
//   error at=<ms> code=<code> peer=<rank> <message>
// where <ms> is the monotonic clock; when it had a communicator, two more lines tell how a further call fails and how
// long destroy() takes.

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "process/checks.h"
#include "process/forks.h"
#include "process/late_writes.h"
#include "support/threads.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

long long now_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void say(const std::string& line) {
  const std::string text = line + "\n";
  static_cast<void>(!::write(STDOUT_FILENO, text.data(), text.size()));
}

void wait_for_file(const std::string& path) {
  while (::access(path.c_str(), F_OK) != 0) std::this_thread::sleep_for(milliseconds(1));
}

std::string read_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// "rank:ranks:path" of an id.
struct Place {
  int rank;
  int ranks;
  std::string path;

  explicit Place(const std::string& text) {
    const std::size_t first = text.find(':');
    const std::size_t second = text.find(':', first + 1);
    rank = std::stoi(text.substr(0, first));
    ranks = std::stoi(text.substr(first + 1));
    path = text.substr(second + 1);
  }
};

class Worker {
 public:
  void perform(const std::string& argument) {
    const std::size_t colon = argument.find(':');
    const std::string action = argument.substr(0, colon);
    const std::string value = colon == std::string::npos ? "" : argument.substr(colon + 1);
    static const std::map<std::string, void (Worker::*)(const std::string&)> kActions = {
        {"abort_when", &Worker::abort_when},
        {"allocate", &Worker::allocate},
        {"barrier", &Worker::barrier},
        {"broadcast", &Worker::broadcast},
        {"calls", &Worker::calls},
        {"cycle", &Worker::cycle},
        {"close_standard", &Worker::close_standard},
        {"descriptors", &Worker::list_left},
        {"destroy", &Worker::destroy},
        {"drop", &Worker::drop},
        {"exit", &Worker::exit_now},
        {"fail", &Worker::fail},
        {"helper", &Worker::helper},
        {"hold", &Worker::hold},
        {"fork_check", &Worker::fork_check},
        {"fork_new", &Worker::fork_new},
        {"fork_sleeper", &Worker::fork_sleeper},
        {"fork_storm", &Worker::fork_storm},
        {"join", &Worker::join},
        {"join_id", &Worker::join_id},
        {"late_writes", &Worker::late_writes},
        {"library", &Worker::library},
        {"listen", &Worker::listen},
        {"loop", &Worker::loop},
        {"make_id", &Worker::make_id},
        {"name", &Worker::set_name},
        {"no_threads", &Worker::no_threads},
        {"recv", &Worker::recv},
        {"registered", &Worker::registered},
        {"report", &Worker::report},
        {"say", &Worker::say_value},
        {"send", &Worker::send},
        {"shrink", &Worker::shrink},
        {"shrink_until", &Worker::shrink_until},
        {"sleep", &Worker::sleep},
        {"standard_closed", &Worker::standard_closed},
        {"split", &Worker::split},
        {"split_together", &Worker::split_together},
        {"sums", &Worker::sums},
        {"throw", &Worker::throw_error},
        {"timer", &Worker::timer},
        {"use", &Worker::use},
        {"wait_for", &Worker::wait_for},
    };
    const auto found = kActions.find(action);
    if (found == kActions.end()) throw std::invalid_argument("unknown action " + argument);
    (this->*found->second)(value);
  }

  // What a failed communicator still does, and how fast.
  void look_back() {
    if (aborter_.joinable()) aborter_.join();
    if (!communicator_) return;
    const long long start = now_ms();
    try {
      communicator_->barrier();
      say("again succeeded");
    } catch (const Error& error) {
      say("again after=" + std::to_string(now_ms() - start) + " code=" + name(error.code()) +
          " peer=" + std::to_string(error.peer()) + " " + error.what());
    }
    const long long leaving = now_ms();
    communicator_.reset();
    say("destroyed after=" + std::to_string(now_ms() - leaving));
  }

 private:
  Communicator& world() { return communicator_.value(); }
  float* buffer(std::size_t count) {
    if (memory_ != Memory::kLibrary) {
      if (count <= private_.size()) return private_.data();
      registration_ = {};
      private_.resize(count);
      if (memory_ == Memory::kRegistered && count * sizeof(float) >= kShortestRegistered) {
        registration_ = register_memory(private_.data(), count * sizeof(float));
      }
      return private_.data();
    }
    if (count > shared_count_) {
      deallocate(shared_);
      shared_ = static_cast<float*>(tutti::allocate(count * sizeof(float)));
      shared_count_ = count;
    }
    return shared_;
  }

  void join(const std::string&) { communicator_.emplace(Communicator::from_environment(options_)); }
  void join_id(const std::string& value) {
    const Place place(value);
    wait_for_file(place.path);
    communicator_.emplace(
        Communicator::create(UniqueId::parse(read_line(place.path)), place.rank, place.ranks, options_));
  }
  // path: where the id is written, complete when it appears.
  void make_id(const std::string& path) {
    std::ofstream(path + ".new") << UniqueId::create().to_text() << '\n';
    std::rename((path + ".new").c_str(), path.c_str());
  }
  void set_name(const std::string& value) { options_.name = value; }
  void library(const std::string&) { memory_ = Memory::kLibrary; }
  void registered(const std::string&) { memory_ = Memory::kRegistered; }
  // A timer whose signals interrupt system calls, every so many microseconds.
  void timer(const std::string& microseconds) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, nullptr);  // no SA_RESTART
    const itimerval interval{{0, std::stoi(microseconds)}, {0, std::stoi(microseconds)}};
    ::setitimer(ITIMER_REAL, &interval, nullptr);
  }
  // A program of this one's environment and some variables more, which makes a communicator as ranks do.
  void helper(const std::string& variables) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    static_cast<void>(!std::system((variables + " " + program + " join").c_str()));
  }
  // As a daemon does; and whether nothing else has got these numbers since, which printing would then write into.
  void close_standard(const std::string&) {
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::close(fd);
  }
  void standard_closed(const std::string&) {
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
      if (::fcntl(fd, F_GETFD) >= 0) std::_Exit(20 + fd);
    }
  }
  // Every collective and point-to-point, with `value` the largest count.
  void sums(const std::string& value) {
    check_collectives(world(), value.empty() ? 10000 : std::stoul(value), memory_);
    say("sums right");
  }
  // "number:count"
  void calls(const std::string& value) {
    const std::size_t colon = value.find(':');
    const int number = std::stoi(value);
    const std::size_t count = colon == std::string::npos ? 1 : std::stoul(value.substr(colon + 1));
    for (int i = 0; i < number; ++i) check_all_reduce(world(), buffer(count), count, i);
    say("calls right");
  }
  // All-reduces until something happens. count
  void loop(const std::string& value) {
    const std::size_t count = value.empty() ? 1 : std::stoul(value);
    while (true) {
      for (int i = 0; i < 100; ++i) check_all_reduce(world(), buffer(count), count, i);
      if (!said_) say("looping");
      said_ = true;
    }
  }
  // All-reduces until the communicator fails, which is not an error. count
  void fail(const std::string& value) {
    try {
      loop(value);
    } catch (const Error& error) {
      say("failed at=" + std::to_string(now_ms()) + " code=" + name(error.code()) +
          " peer=" + std::to_string(error.peer()) + " " + error.what());
    }
    said_ = false;
  }
  // patience in ms
  void shrink(const std::string& patience) {
    say("shrinking");
    communicator_.emplace(world().shrink(milliseconds(patience.empty() ? 30'000 : std::stoi(patience))));
    say("shrunk at=" + std::to_string(now_ms()) + " rank " + std::to_string(world().rank()) + " of " +
        std::to_string(world().ranks()));
  }
  // Whenever it fails, until so many are left.
  void shrink_until(const std::string& ranks) {
    while (world().ranks() > std::stoi(ranks)) {
      fail("10");
      shrink("");
    }
  }
  // So many communicators, one after the other.
  void cycle(const std::string& times) {
    for (int i = 0; i < std::stoi(times); ++i) {
      join("");
      check_all_reduce(world(), buffer(1000), 1000, i);
      communicator_->destroy();
      communicator_.reset();
    }
    say("cycled");
  }
  // Opens files until only so many descriptors are left.
  void hold(const std::string& left) {
    std::vector<int> opened;
    for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY)) >= 0;) opened.push_back(fd);
    for (int i = 0; i < std::stoi(left); ++i) ::close(opened[opened.size() - 1 - static_cast<std::size_t>(i)]);
  }
  // "name:color" of a communicator that use() finds.
  void split(const std::string& value) {
    const std::size_t colon = value.find(':');
    const std::string name = value.substr(0, colon);
    std::optional<Communicator> made = world().split(std::stoi(value.substr(colon + 1)), 0, {.name = name});
    if (made) others_.emplace(name, std::move(*made));
  }
  // Two splits in one group.
  // Communicators of two parents: those are opened at the same time, all but one in threads.
  void split_together(const std::string&) {
    auto other = world().split(0, 0);
    Group group;
    const auto first = world().split(0, 0);
    const auto second = other->split(world().rank(), 0);
    group.end();
  }
  // No more threads from now on: there is no room for their stacks.
  void no_threads(const std::string&) {
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, std::size_t{1} << 60);
    if (::pthread_setattr_default_np(&attributes) != 0) throw std::runtime_error("cannot set the size of stacks");
    ::pthread_attr_destroy(&attributes);
  }
  // What follows is called on the communicator that was split off under this name; "": on the first again.
  void use(const std::string& name) {
    if (communicator_) others_.insert_or_assign(used_, std::move(*communicator_));
    communicator_.reset();
    used_ = name;
    auto found = others_.extract(name);
    if (!found.empty()) communicator_.emplace(std::move(found.mapped()));
  }
  // Whatever became of it.
  void drop(const std::string& name) {
    if (name == used_) communicator_.reset();
    others_.erase(name);
  }
  void barrier(const std::string&) { world().barrier(); }
  void broadcast(const std::string& count) {
    world().broadcast(std::span(buffer(std::stoul(count)), std::stoul(count)), 0);
  }
  void recv(const std::string& from) {
    world().recv(std::span(buffer(1000), 1000), from == "any" ? kAnySource : std::stoi(from));
  }
  void send(const std::string& to) { world().send(std::span<const float>(buffer(1000), 1000), std::stoi(to)); }
  // Megabytes, again and again, each one written to.
  void allocate(const std::string& megabytes) {
    for (int i = 0; i < 5; ++i) {
      const std::size_t bytes = std::stoul(megabytes) << 20;
      auto* memory = static_cast<char*>(tutti::allocate(bytes));
      for (std::size_t offset = 0; offset < bytes; offset += 4096) memory[offset] = 1;
      deallocate(memory);
    }
    say("allocated");
  }
  void sleep(const std::string& ms) {
    const auto until = std::chrono::steady_clock::now() + milliseconds(std::stoi(ms));
    std::this_thread::sleep_until(until);
  }
  // Another thread aborts the communicator when the file is there.
  void abort_when(const std::string& path) {
    aborter_ = std::jthread([this, path] {
      wait_for_file(path);
      world().abort("the operator said so");
    });
  }
  void wait_for(const std::string& path) { wait_for_file(path); }
  void say_value(const std::string& value) { say(value); }
  void report(const std::string&) {
    const Statistics statistics = world().statistics();
    say("rank " + std::to_string(world().rank()) + " of " + std::to_string(world().ranks()));
    say("hosts " + std::to_string(world().hosts()));
    say("plan " + world().plan("all_reduce", 1000, DataType::kF32));
    say("read in place " + std::to_string(statistics.messages_read_in_place));
  }
  void destroy(const std::string&) {
    world().destroy();
    communicator_.reset();
    deallocate(shared_);
    shared_ = nullptr;
    shared_count_ = 0;
    say("destroyed");
  }
  void exit_now(const std::string& status) { std::exit(std::stoi(status)); }
  void throw_error(const std::string&) { throw 1; }  // nobody catches it
  void list_left(const std::string&);
  // "library" or "registered", "shrink" or "destroy", and where the ranks meet: "memory:end:directory".
  void late_writes(const std::string& how) {
    const std::size_t first = how.find(':');
    const std::size_t second = how.find(':', first + 1);
    check_late_writes(world(), how.substr(0, first) == "library" ? Memory::kLibrary : Memory::kRegistered,
                      how.substr(first + 1, second - first - 1) == "shrink", how.substr(second + 1));
    say("not changed");
  }
  void fork_check(const std::string&) { check_forked_child(world()); }
  void fork_new(const std::string& meeting_place) { check_communicator_of_children(meeting_place); }
  void fork_sleeper(const std::string& ms) { tutti::fork_sleeper(std::stoi(ms)); }
  void fork_storm(const std::string& forks) { check_forks_amid_calls(world(), std::stoi(forks)); }
  // Holds a port of 127.0.0.1 until it is killed.
  void listen(const std::string& port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 || ::listen(socket, 8) != 0) {
      throw std::runtime_error("cannot listen");
    }
    say("listening");
    while (true) ::pause();
  }

  Options options_;
  std::optional<Communicator> communicator_;
  std::map<std::string, Communicator> others_;  // that are not used at the moment
  std::string used_;
  Memory memory_ = Memory::kPrivate;
  bool said_ = false;
  std::vector<float> private_;
  Registration registration_;  // ends before the vector
  float* shared_ = nullptr;
  std::size_t shared_count_ = 0;
  std::jthread aborter_;  // before the communicator goes
};

// What of the library's this process still has: a communicator that is gone leaves nothing.
void Worker::list_left(const std::string&) {
  int descriptors = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) ++descriptors;
  }
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int mappings = 0;
  while (std::getline(maps, line)) mappings += line.find("memfd:tutti") != std::string::npos ? 1 : 0;
  say("left descriptors=" + std::to_string(descriptors) + " threads=" + std::to_string(threads_left(1)) +
      " mappings=" + std::to_string(mappings));
}

int run(int argc, char** argv) {
  Worker worker;
  try {
    for (int i = 1; i < argc; ++i) worker.perform(argv[i]);
    return 0;
  } catch (const Error& error) {
    say("error at=" + std::to_string(now_ms()) + " code=" + name(error.code()) +
        " peer=" + std::to_string(error.peer()) + " " + error.what());
    worker.look_back();
    return 3;
  } catch (const std::exception& error) {
    say(std::string("wrong: ") + error.what());
    return 4;
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::run(argc, argv); }
