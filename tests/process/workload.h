#pragma once

#include <cstdint>
#include <functional>

#include "tutti/tutti.h"

namespace tutti {

// A mixture of everything that ranks do with a communicator, the same on all ranks for one seed: collectives of many
// sizes, messages, streams, groups, parts of the communicator. Every result is compared with what it must be.
class Workload {
 public:
  Workload(Communicator& world, std::uint64_t seed);

  // Throws Error when the communicator has failed, std::runtime_error when a result is wrong.
  void step(int number);

 private:
  void collective(std::uint64_t choice);
  void ring(std::uint64_t choice);
  void stream(std::uint64_t choice);
  void group(std::uint64_t choice);
  void integers(std::uint64_t choice);
  void split(std::uint64_t choice);

  Communicator& world_;
  std::uint64_t seed_;
};

}  // namespace tutti
