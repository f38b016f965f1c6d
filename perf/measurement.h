#pragma once

#include <cstddef>
#include <vector>

#include "perf/buffer.h"
#include "perf/collective.h"
#include "perf/data.h"
#include "perf/job.h"
#include "perf/options.h"
#include "perf/results.h"

namespace tutti::perf {

// What is called, on which data; shared by the sizes of a sweep.
struct Subject {
  const Collective& collective;
  const Options& options;
  DataType type;
  ReduceOp::Kind op;
  int root;
};

// One size, in place or not, on one rank: first check iterations, then nccl-tests' back-to-back time, then single
// calls. Every result in them is checked where the data is rewritten between calls.
class Measurement {
 public:
  Measurement(const Subject& subject, const Shape& shape, bool in_place, Rank& rank, Data& data, Buffer& input,
              Buffer& output);

  // The same on all ranks, but for the mismatches, which rank 0 gets.
  Mode run();

 private:
  void call();
  // As a producer and a consumer of the data would. What `use` reads belongs to variant `variant`.
  void produce(int variant);
  void use(int variant);

  void check_iterations();
  void warm_up();
  // Seconds per call; fills `iterations` where each is timed.
  double back_to_back(std::vector<double>& iterations);
  int single_count(double call_us) const;
  std::vector<double> single_calls(int count);
  void collect(Mode& mode);

  const Subject& subject_;
  const Options& options_;
  Shape shape_;
  bool in_place_;
  Rank& rank_;
  Data& data_;
  Buffer& output_buffer_;
  std::byte* input_;
  std::byte* output_;
  std::size_t used_bytes_;  // of the buffer that the output lies in
  std::size_t output_bytes_;
  std::size_t input_elements_;  // 0 where this rank's input does not count
  std::vector<Segment> segments_;
  ReduceOp op_;
  bool checked_;
  Verdict verdict_;
};

}  // namespace tutti::perf
