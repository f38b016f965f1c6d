#include "perf/job.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/unique_id.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kIdText = 1025;  // UniqueId's longest text and its end

// Where the ranks of all processes meet.
struct Meeting {
  int process = 0;
  int processes = 1;
  std::optional<Communicator> world;  // of the processes, when a launcher started them
  UniqueId measured;                  // empty when `world` is to be measured
  UniqueId meter;
};

// Whether Communicator::from_environment has something to go by.
bool launched() {
  for (const char* name : {"TUTTI_NRANKS", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_PROCID"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// A new id of process 0, on all processes.
UniqueId share(std::optional<Communicator>& world) {
  if (!world) return UniqueId::create();
  std::array<char, kIdText> text{};
  if (world->rank() == 0) {
    const std::string own = UniqueId::create().to_text();
    std::memcpy(text.data(), own.data(), own.size());
  }
  world->broadcast(text.data(), text.data(), text.size(), DataType::kU8, 0);
  return UniqueId::parse(text.data());
}

Meeting meet(int threads) {
  Meeting meeting;
  if (launched()) {
    meeting.world.emplace(Communicator::from_environment());
    meeting.process = meeting.world->rank();
    meeting.processes = meeting.world->ranks();
  }
  meeting.meter = share(meeting.world);
  if (threads > 1 || !meeting.world) meeting.measured = share(meeting.world);
  return meeting;
}

[[noreturn]] void fail(const std::string& message) {
  std::fflush(stdout);
  fmt::print(stderr, "\n# error: {}\n", message);
  std::fflush(stderr);
  std::_Exit(kExitFailed);
}

tutti::Options named(const char* name) {
  tutti::Options options;
  options.name = name;
  return options;
}

int run_rank(Meeting& meeting, int index, int threads, Watchdog& watchdog, const std::function<int(Rank&)>& body) {
  const int rank = meeting.process * threads + index;
  const int ranks = meeting.processes * threads;
  try {
    Communicator measured = meeting.measured.empty()
                                ? std::move(*meeting.world)
                                : Communicator::create(meeting.measured, rank, ranks, named("measured"));
    Communicator meter = Communicator::create(meeting.meter, rank, ranks, named("meter"));
    Watchdog::Slot& slot = watchdog.slot(index);
    slot.describe(rank, "a barrier");
    Rank self{rank, ranks, index, std::move(measured), Meter(std::move(meter), slot), slot, false};
    const int result = body(self);
    // Nobody leaves while another still measures: leaving wakes threads up.
    self.meter.barrier();
    return result;
  } catch (const std::exception& error) {
    fail(fmt::format("rank {}: {}", rank, error.what()));
  }
}

}  // namespace

int run_ranks(int threads, Watchdog& watchdog, const std::function<int(Rank&)>& body) {
  Meeting meeting;
  try {
    meeting = meet(threads);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  if (threads == 1) return run_rank(meeting, 0, 1, watchdog, body);
  std::vector<int> results(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  for (int i = 0; i < threads; ++i) {
    others.emplace_back(
        [&, i] { results[static_cast<std::size_t>(i)] = run_rank(meeting, i, threads, watchdog, body); });
  }
  for (std::thread& thread : others) thread.join();
  int worst = 0;
  for (const int result : results) worst = result > worst ? result : worst;
  return worst;
}

}  // namespace tutti::perf
