#pragma once

// What calls of any type and operation compute, element by element, independent of the library: inputs are a function
// of (case, rank, index), results come from the reference of the reduction.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "schedule/algorithm.h"
#include "tutti/communicator.h"

namespace tutti {

// Memory with guard bytes on both sides, at any distance from an aligned address. Filled with a pattern when new.
class GuardedBuffer {
 public:
  GuardedBuffer(std::size_t bytes, std::size_t misalignment);
  std::byte* data() { return memory_.get() + kGuard + misalignment_; }
  // Whether nothing beyond the bytes was written.
  bool intact() const;

 private:
  static constexpr std::size_t kGuard = 128;
  static constexpr std::byte kPattern{0xA5};
  std::size_t bytes_;
  std::size_t misalignment_;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> memory_;
};

// A call, apart from its buffers. In a vector form `count` is the size of the largest block, and the place that each
// block has; the seed decides how long blocks are, in which order they lie and with which gaps.
struct TestCall {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kF32;
  ReduceOp::Kind op = ReduceOp::Kind::kSum;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  std::uint64_t seed = 0;
};

std::uint64_t load_code(DataType type, const std::byte* data, std::size_t index);
void store_code(DataType type, std::byte* data, std::size_t index, std::uint64_t code);

// Makes the reference's tables; call it before threads use what is below.
void prepare_reference();

// Element `index` of a rank's input. Integers are anything. Floats of min, max and of calls that only move data are
// anything but NaN; of the others such that every partial result is exact, in any order.
std::uint64_t input_code(const TestCall& call, int ranks, int rank, std::size_t index);
// The operation that rank `rank` passes: pre_mul_sum has a scalar of its own on every rank.
ReduceOp op_of(const TestCall& call, int rank);
// What element `index` of rank `rank`'s output must be; nothing: it must stay as it was.
std::optional<std::uint64_t> output_code(const TestCall& call, int ranks, int rank, std::size_t index);

std::size_t blocks_in(const TestCall& call, int rank, int ranks);
std::size_t blocks_out(const TestCall& call, int rank, int ranks);
// Where input and output of this rank's call lie in the memory that perform_at() is given: in place the smaller side in
// the larger one.
struct CallBuffers {
  std::byte* input;
  std::byte* output;
};
CallBuffers buffers_of(const TestCall& call, int rank, int ranks, std::byte* first, std::byte* second);
// All of this rank's input.
void store_input(const TestCall& call, int ranks, int rank, std::byte* input);

// Makes the call on this rank with buffers of its own, `misalignment` bytes from an aligned address, and checks output,
// guards and, unless in place, that the input is as it was. Returns "" or what is wrong.
std::string perform(Communicator& communicator, const TestCall& call, std::size_t misalignment);

// The same in the caller's memory. first: the input, as long as blocks_in() says; in place both, as long as the larger
// of them. second: the output, unused in place. Long outputs are checked at both ends and here and there between them.
std::string perform_at(Communicator& communicator, const TestCall& call, std::byte* first, std::byte* second);
// Bytes of both.
std::size_t bytes_of_first(const TestCall& call, int rank, int ranks);
std::size_t bytes_of_second(const TestCall& call, int rank, int ranks);

std::string describe(const TestCall& call);

// A float whose sums are not exact: added up in another order they have other bits.
float uneven_value(int rank, std::size_t index);

// Issues the call with these buffers.
Work issue(Communicator& communicator, const TestCall& call, const void* input, void* output);

// The seed of random samples: TUTTI_TEST_SEED, else a fixed one; printed by whoever uses it.
std::uint64_t sample_seed();
// Whether walks through large products should take fewer samples (sanitizers).
bool reduced();

}  // namespace tutti
