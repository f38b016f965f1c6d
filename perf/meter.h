#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "perf/common_start.h"
#include "perf/options.h"
#include "perf/watchdog.h"
#include "tutti/communicator.h"

namespace tutti::perf {

// What the ranks tell each other about measurements, over a communicator of its own, so that the measured one sees
// nothing but the measured calls. One rank's thread; every function is called by all ranks and blocks.
class Meter {
 public:
  Meter(Communicator communicator, Watchdog::Slot& slot);

  // Ranks leave it close together, also when they came far apart.
  void start_together();
  void barrier();
  // The same moment for all, which their clock, a shared one, shows soon. Returns when it does: see CommonStart.
  double wait_for_common_start();

  // Element-wise over the ranks; the same on all.
  std::vector<double> combine(std::vector<double> values, Average how);
  double sum(double value);

  // Every rank's values, in rank order.
  template <class T>
  std::vector<T> all(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> every(values.size() * static_cast<std::size_t>(communicator_.ranks()));
    gather_bytes(values.data(), every.data(), values.size() * sizeof(T));
    return every;
  }

 private:
  void gather_bytes(const void* input, void* output, std::size_t bytes);

  Communicator communicator_;
  Watchdog::Slot& slot_;
  CommonStart start_;
};

}  // namespace tutti::perf
