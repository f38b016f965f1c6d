#pragma once

#include <cstddef>
#include <cstdint>

#include "perf/bare/pair.h"
#include "perf/bare/vectors.h"

namespace tutti::perf::bare {

// Buffers of both threads, which both can read and write.
struct SharedBuffers {
  const float* in[2];
  float* out[2];
};

// All-reduce between two threads whose inputs and outputs lie in shared memory: nothing is copied but results. Every
// way waits once before it reads the other's input and once before the call ends. Both threads call the same functions.
class SharedExchange {
 public:
  // Each thread reduces everything into its own output.
  void own_output(int rank, const SharedBuffers& buffers, std::size_t count) {
    meet(rank);
    add<Store::kOrdinary>(buffers.in[0], buffers.in[1], buffers.out[rank], count);
    meet(rank);
  }

  // Each thread reduces half and writes it to both outputs.
  template <Store own, Store there>
  void slices(int rank, const SharedBuffers& buffers, std::size_t count) {
    const Half half(rank, count);
    meet(rank);
    add_to_both<own, there>(buffers.in[0] + half.begin, buffers.in[1] + half.begin, buffers.out[rank] + half.begin,
                            buffers.out[1 - rank] + half.begin, half.size);
    meet(rank);
  }

  // Each thread reduces half into its own output and then copies the other's half.
  template <Store own>
  void slices_copied(int rank, const SharedBuffers& buffers, std::size_t count) {
    const Half half(rank, count), other(1 - rank, count);
    meet(rank);
    add<own>(buffers.in[0] + half.begin, buffers.in[1] + half.begin, buffers.out[rank] + half.begin, half.size);
    meet(rank);
    copy<own>(buffers.out[1 - rank] + other.begin, buffers.out[rank] + other.begin, other.size);
    meet(rank);
  }

 private:
  struct Half {
    Half(int rank, std::size_t count) {
      const std::size_t middle = count / 2 / 32 * 32;  // whole pairs of lines
      begin = rank == 0 ? 0 : middle;
      size = rank == 0 ? middle : count - middle;
    }
    std::size_t begin;
    std::size_t size;
  };
  struct alignas(128) Number {
    std::uint64_t value = 0;
  };

  void meet(int rank) {
    const std::uint64_t number = ++numbers_[rank].value;
    lines_[rank].publish(number);
    lines_[1 - rank].wait_for(number);
  }

  Line lines_[2];
  Number numbers_[2];
};

}  // namespace tutti::perf::bare
