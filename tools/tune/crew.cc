#include "tune/crew.h"

#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "tutti/unique_id.h"

namespace tutti::tune {

bool launched() {
  for (const char* name : {"TUTTI_NRANKS", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_PROCID"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

void run_crew(int ranks, const std::function<void(Communicator& world)>& body) {
  if (launched()) {
    Communicator world = Communicator::from_environment();
    return body(world);
  }
  const UniqueId id = UniqueId::create();
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Communicator world = Communicator::create(id, rank, ranks);
        body(world);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti::tune
