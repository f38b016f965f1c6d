#include "tune/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>

namespace tutti::tune {
namespace {

constexpr int kWarmUps = 3;
constexpr std::uint64_t kFewest = 5;
constexpr std::uint64_t kMost = 2000;

double ns_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

double median(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// How many blocks of `count` elements the larger side of a call has.
std::size_t blocks(Collective collective, int ranks) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kBarrier:
      return 1;
    default:
      return static_cast<std::size_t>(ranks);
  }
}

}  // namespace

Trial::Trial(Communicator& world, Collective collective, const std::vector<std::string>& algorithms,
             std::size_t largest_bytes)
    : world_(world),
      collective_(collective),
      input_(largest_bytes / sizeof(float) + 1, 1),
      output_(largest_bytes / sizeof(float) + 1) {
  for (const std::string& algorithm : algorithms) {
    Options options;
    options.name = algorithm;
    options.config = {{"TUTTI_ALGO", fmt::format("{}:{}", name(collective), algorithm)}};
    communicators_.push_back(std::move(*world.split(0, world.rank(), options)));
  }
}

void Trial::touch(std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  for (std::size_t i = 0; i < count; ++i) {
    seen_ += output_[i];
    input_[i] = static_cast<float>(i % 7);
  }
}

double Trial::call_ns(Communicator& communicator, std::size_t count) {
  const auto start = std::chrono::steady_clock::now();
  switch (collective_) {
    case Collective::kAllReduce:
      communicator.all_reduce(input_.data(), output_.data(), count, DataType::kF32, kSum);
      break;
    case Collective::kAllGather:
      communicator.all_gather(input_.data(), output_.data(), count, DataType::kF32);
      break;
    case Collective::kReduceScatter:
      communicator.reduce_scatter(input_.data(), output_.data(), count, DataType::kF32, kSum);
      break;
    case Collective::kBroadcast:
      communicator.broadcast(input_.data(), output_.data(), count, DataType::kF32, 0);
      break;
    case Collective::kReduce:
      communicator.reduce(input_.data(), output_.data(), count, DataType::kF32, kSum, 0);
      break;
    case Collective::kGather:
      communicator.gather(input_.data(), output_.data(), count, DataType::kF32, 0);
      break;
    case Collective::kScatter:
      communicator.scatter(input_.data(), output_.data(), count, DataType::kF32, 0);
      break;
    case Collective::kAllToAll:
      communicator.all_to_all(input_.data(), output_.data(), count, DataType::kF32);
      break;
    default:
      communicator.barrier();
  }
  return ns_since(start);
}

std::vector<double> Trial::measure(std::size_t bytes, double seconds) {
  const std::size_t count = bytes / sizeof(float) / blocks(collective_, world_.ranks());
  std::vector<std::vector<double>> times(communicators_.size());
  std::uint64_t iterations = kWarmUps;
  for (std::uint64_t i = 0; i < iterations; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t a = 0; a < communicators_.size(); ++a) {
      touch(bytes);
      world_.barrier();
      times[a].push_back(call_ns(communicators_[a], count));
    }
    if (i + 1 != kWarmUps) continue;
    for (auto& some : times) some.clear();
    double wanted = seconds * 1e9 / std::max(ns_since(start), 1.0);
    world_.broadcast(&wanted, &wanted, 1, DataType::kF64, 0);  // rank 0 decides for all
    iterations += std::clamp(static_cast<std::uint64_t>(wanted), kFewest, kMost);
  }
  std::vector<double> result;
  for (std::vector<double>& some : times) {
    world_.all_reduce(some.data(), some.data(), some.size(), DataType::kF64, kMax);
    result.push_back(median(some));
  }
  return result;
}

}  // namespace tutti::tune
