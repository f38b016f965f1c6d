#include "process/checks.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/reference.h"

namespace tutti {
namespace {

// Floats in memory of each kind.
class Buffer {
 public:
  Buffer(std::size_t count, Memory memory) : count_(count) {
    if (memory == Memory::kLibrary) {
      data_ = static_cast<float*>(allocate(std::max<std::size_t>(count * sizeof(float), 1)));
      library_ = data_;
      return;
    }
    private_.resize(count);
    data_ = private_.data();
    if (memory == Memory::kRegistered && count * sizeof(float) >= kShortestRegistered) {
      registration_ = register_memory(data_, count * sizeof(float));
    }
  }
  ~Buffer() { deallocate(library_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  float* data() { return data_; }
  std::size_t count() const { return count_; }

 private:
  std::size_t count_;
  float* data_;
  float* library_ = nullptr;
  std::vector<float> private_;
  Registration registration_;  // ends before the vector
};

[[noreturn]] void wrong(const char* what, std::size_t index, float got, float expected) {
  throw std::runtime_error(std::string(what) + ": element " + std::to_string(index) + " is " + std::to_string(got) +
                           ", expected " + std::to_string(expected));
}

Work call(Communicator& world, Collective collective, const float* input, float* output, std::size_t count, int root) {
  switch (collective) {
    case Collective::kAllReduce:
      return world.all_reduce(input, output, count, DataType::kF32, kSum);
    case Collective::kAllGather:
      return world.all_gather(input, output, count, DataType::kF32);
    case Collective::kReduceScatter:
      return world.reduce_scatter(input, output, count, DataType::kF32, kSum);
    case Collective::kBroadcast:
      return world.broadcast(input, output, count, DataType::kF32, root);
    case Collective::kReduce:
      return world.reduce(input, output, count, DataType::kF32, kSum, root);
    case Collective::kGather:
      return world.gather(input, output, count, DataType::kF32, root);
    case Collective::kScatter:
      return world.scatter(input, output, count, DataType::kF32, root);
    case Collective::kAllToAll:
      return world.all_to_all(input, output, count, DataType::kF32);
    case Collective::kBarrier:
      return world.barrier();
    default:
      break;
  }
  const std::vector<std::size_t> counts(static_cast<std::size_t>(world.ranks()), count);
  if (collective == Collective::kAllGatherV) return world.all_gather_v(input, output, counts, {}, DataType::kF32);
  if (collective == Collective::kReduceScatterV) {
    return world.reduce_scatter_v(input, output, counts, {}, DataType::kF32, kSum);
  }
  return world.all_to_all_v(input, counts, {}, output, counts, {}, DataType::kF32);
}

}  // namespace

void check_collective(Communicator& world, Collective collective, std::size_t count, int root, Memory memory) {
  const int rank = world.rank();
  Buffer input(input_elements(collective, rank, world.ranks(), root, count), memory);
  Buffer output(output_elements(collective, rank, world.ranks(), root, count), memory);
  for (std::size_t i = 0; i < input.count(); ++i) input.data()[i] = reference_input(rank, i);
  call(world, collective, input.data(), output.data(), count, root);
  const std::vector<float> expected = reference_output(collective, rank, world.ranks(), root, count);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (output.data()[i] != expected[i]) wrong(name(collective), i, output.data()[i], expected[i]);
  }
}

void check_ring(Communicator& world, std::size_t count, Memory memory) {
  if (world.ranks() < 2) return;
  const int next = (world.rank() + 1) % world.ranks();
  const int previous = (world.rank() + world.ranks() - 1) % world.ranks();
  Buffer mine(count, memory);
  Buffer other(count, memory);
  for (std::size_t i = 0; i < count; ++i) mine.data()[i] = reference_input(world.rank(), i);
  const auto send = [&] { world.send(mine.data(), count, DataType::kF32, next); };
  const auto receive = [&] { world.recv(other.data(), count, DataType::kF32, previous); };
  if (world.rank() % 2 == 0) {
    send();
    receive();
  } else {
    receive();
    send();
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (const float expected = reference_input(previous, i); other.data()[i] != expected) {
      wrong("recv", i, other.data()[i], expected);
    }
  }
}

void check_collectives(Communicator& world, std::size_t largest, Memory memory) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{17}, largest / 7 + 1, largest}) {
    for (int c = 0; c < kCollectives; ++c) {
      for (const int root : {0, world.ranks() - 1})
        check_collective(world, static_cast<Collective>(c), count, root, memory);
    }
    check_ring(world, count, memory);
  }
}

void check_all_reduce(Communicator& world, float* data, std::size_t count, int seed) {
  const int ranks = world.ranks();
  for (std::size_t i = 0; i < count; ++i)
    data[i] = static_cast<float>(world.rank() + seed % 13 + static_cast<int>(i % 7));
  world.all_reduce(data, data, count, DataType::kF32, kSum);
  for (std::size_t i = 0; i < count; ++i) {
    const int expected = ranks * (ranks - 1) / 2 + ranks * (seed % 13 + static_cast<int>(i % 7));
    if (data[i] != static_cast<float>(expected)) wrong("all_reduce", i, data[i], static_cast<float>(expected));
  }
}

}  // namespace tutti
