// A rank of the soak: soak_worker SEED STEPS FAULT AT SHRINK
//
// Joins, does STEPS steps of a Workload and leaves. FAULT is what it does to itself at step AT (-1: before it joins):
// exit, throw, abort, or none. Says how far it is, and what it has open before and after, in lines that the soak reads;
// an Error ends it with status 3, as worker.cc does. SHRINK 1: the survivors then go on as a new communicator.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "process/workload.h"
#include "support/descriptors.h"
#include "support/threads.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr int kStepsUntilBusy = 3;

long long now_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void say(const std::string& line) {
  const std::string text = line + "\n";
  static_cast<void>(!::write(STDOUT_FILENO, text.data(), text.size()));
}

// What this process has open: descriptors, threads, mappings of shared memory.
std::string belongings() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int shared = 0;
  while (std::getline(maps, line)) shared += line.size() > 30 && line[line.find(' ') + 4] == 's' ? 1 : 0;
  maps.close();
  return "descriptors=" + std::to_string(open_descriptors()) + " threads=" + std::to_string(threads_left(1)) +
         " shared=" + std::to_string(shared);
}

[[noreturn]] void suffer(const std::string& fault) {
  say("fault at=" + std::to_string(now_ms()));
  if (fault == "exit") std::exit(7);
  if (fault == "throw") throw 1;  // nobody catches it
  std::abort();
}

// What a failed communicator still does, and how fast.
void look_back(std::optional<Communicator>& communicator) {
  if (!communicator) return;
  const long long start = now_ms();
  try {
    communicator->barrier();
    say("again succeeded");
  } catch (const Error& error) {
    say("again after=" + std::to_string(now_ms() - start) + " code=" + name(error.code()) +
        " peer=" + std::to_string(error.peer()) + " " + error.what());
  }
  const long long leaving = now_ms();
  communicator.reset();
  say("destroyed after=" + std::to_string(now_ms() - leaving));
}

// The survivors do a little together.
void shrink(Communicator& communicator, std::uint64_t seed) {
  Communicator survivors = communicator.shrink(std::chrono::seconds(20));
  Workload workload(survivors, seed + 1);
  for (int step = 0; step < 4; ++step) workload.step(step);
  say("shrunk to " + std::to_string(survivors.ranks()));
  survivors.destroy();
}

int run(std::uint64_t seed, int steps, const std::string& fault, int at, bool shrinks) {
  std::optional<Communicator> communicator;
  int status = 0;
  deallocate(allocate(1));  // the heap behind it stays, as malloc's does
  say("before " + belongings());
  try {
    if (fault != "none" && at < 0) suffer(fault);
    Options options;
    options.name = "blue";
    communicator.emplace(Communicator::from_environment(options));
    say("joined");
    Workload workload(*communicator, seed);
    for (int step = 0; step < steps; ++step) {
      if (fault != "none" && step == at) suffer(fault);
      workload.step(step);
      if (step == kStepsUntilBusy) say("busy");
    }
    if (fault != "none" && at >= steps) suffer(fault);
    say("leaving");
    communicator->destroy();
    communicator.reset();
  } catch (const Error& error) {
    say("error at=" + std::to_string(now_ms()) + " code=" + name(error.code()) +
        " peer=" + std::to_string(error.peer()) + " " + error.what());
    try {
      if (shrinks) shrink(*communicator, seed);
    } catch (const Error& trouble) {
      say(std::string("cannot shrink: ") + trouble.what());
    }
    look_back(communicator);
    status = 3;
  } catch (const std::exception& error) {
    say(std::string("wrong: ") + error.what());
    return 4;
  }
  say("after " + belongings());
  return status;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  return tutti::run(std::strtoull(argv[1], nullptr, 10), std::atoi(argv[2]), argv[3], std::atoi(argv[4]),
                    std::atoi(argv[5]) != 0);
}
