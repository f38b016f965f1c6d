#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "schedule/algorithm.h"
#include "tutti/communicator.h"

namespace tutti::tune {

// Measures the algorithms of one collective against each other. One per rank; all ranks call the same.
class Trial {
 public:
  // Makes a communicator for each of the algorithms. Throws Error.
  Trial(Communicator& world, Collective collective, const std::vector<std::string>& algorithms,
        std::size_t largest_bytes);

  // Times of one call in nanoseconds, by algorithm: the median over iterations of the slowest rank. In each iteration
  // every algorithm has a turn; before it the input is rewritten and the output read, outside the clock. `bytes` is
  // the larger of a rank's input and output. Takes about `seconds`.
  std::vector<double> measure(std::size_t bytes, double seconds);

 private:
  double call_ns(Communicator& communicator, std::size_t count);
  void touch(std::size_t bytes);

  Communicator& world_;
  const Collective collective_;
  std::vector<Communicator> communicators_;  // by algorithm
  std::vector<float> input_;
  std::vector<float> output_;
  float seen_ = 0;  // so that the output is read
};

}  // namespace tutti::tune
