#include "process/workload.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "process/checks.h"

namespace tutti {
namespace {

constexpr std::array<std::size_t, 8> kCounts = {0, 1, 5, 24, 300, 2'000, 20'000, 120'000};

std::size_t count_of(std::uint64_t choice) { return kCounts[choice % kCounts.size()]; }

template <class T>
void expect(const char* what, const std::vector<T>& values, T expected) {
  const auto odd = std::find_if(values.begin(), values.end(), [expected](T value) { return value != expected; });
  if (odd == values.end()) return;
  throw std::runtime_error(std::string(what) + ": element " + std::to_string(odd - values.begin()) + " of " +
                           std::to_string(values.size()) + " is " + std::to_string(*odd) + ", expected " +
                           std::to_string(expected));
}

}  // namespace

Workload::Workload(Communicator& world, std::uint64_t seed) : world_(world), seed_(seed) {}

void Workload::step(int number) {
  std::mt19937_64 random(seed_ * 1'000'003 + static_cast<std::uint64_t>(number));
  const std::uint64_t kind = random() % 11;
  const std::uint64_t choice = random();
  if (kind < 4) return collective(choice);
  if (kind < 6) return integers(choice);
  if (kind < 7) return ring(choice);
  if (kind < 9) return stream(choice);
  if (kind < 10) return group(choice);
  return split(choice);
}

void Workload::collective(std::uint64_t choice) {
  const auto which = static_cast<Collective>(choice % kCollectives);
  const int root = static_cast<int>(choice / 64 % static_cast<std::uint64_t>(world_.ranks()));
  check_collective(world_, which, count_of(choice / 1024), root, static_cast<Memory>(choice / 8192 % 3));
}

void Workload::ring(std::uint64_t choice) {
  check_ring(world_, count_of(choice), static_cast<Memory>(choice / 64 % 3));
}

// All-reduces of integers of every width, now and then without a result.
void Workload::integers(std::uint64_t choice) {
  const std::size_t count = count_of(choice / 16);
  const int sum = world_.ranks() * (world_.ranks() + 1) / 2;
  const auto reduce = [&](auto one) {
    using T = decltype(one);
    std::vector<T> values(count, static_cast<T>(world_.rank() + 1));
    world_.all_reduce(std::span<const T>(values), std::span(values));
    expect("all_reduce of integers", values, static_cast<T>(sum));
  };
  switch (choice % 4) {
    case 0:
      return reduce(std::int8_t{});
    case 1:
      return reduce(std::uint32_t{});
    case 2:
      return reduce(std::int64_t{});
    default:
      world_.barrier();
  }
}

// A few all-reduces that go on while this thread does something else.
void Workload::stream(std::uint64_t choice) {
  const int sum = world_.ranks() * (world_.ranks() + 1) / 2;
  std::vector<std::vector<float>> buckets;
  for (std::uint64_t i = 0; i < 1 + choice % 5; ++i) {
    buckets.emplace_back(count_of(choice / 64 + i), static_cast<float>(world_.rank() + 1));
  }
  HostStream stream;  // ends before the buckets do
  std::vector<Work> works;
  for (auto& bucket : buckets) {
    works.push_back(world_.all_reduce(std::span<const float>(bucket), std::span(bucket), kSum, stream));
  }
  if (choice / 8 % 2 == 1) world_.barrier();
  for (const Work& work : works) work.wait();
  for (const auto& bucket : buckets) expect("all_reduce on a stream", bucket, static_cast<float>(sum));
}

// Parts of up to three ranks, perhaps without some of them, which all-reduce for themselves.
void Workload::split(std::uint64_t choice) {
  const int parts = (world_.ranks() + 2) / 3;
  const bool aside = choice % 4 == 0 && world_.rank() == 0;
  std::optional<Communicator> part = world_.split(aside ? -1 : world_.rank() % parts, world_.rank());
  if (!part) return;
  std::vector<int> values(count_of(choice / 4), 1);
  part->all_reduce(std::span<const int>(values), std::span(values));
  expect("all_reduce in a part", values, part->ranks());
  if (choice / 32 % 2 == 1) part->destroy();
}

// Everybody to everybody, and an all-reduce among it.
void Workload::group(std::uint64_t choice) {
  const std::size_t count = std::min<std::size_t>(count_of(choice), 2'000);
  const auto ranks = static_cast<std::size_t>(world_.ranks());
  const int own = world_.rank();
  std::vector<int> mine(count, own);
  std::vector<std::vector<int>> theirs(ranks, std::vector<int>(count));
  std::vector<int> ones(count, 1);
  Group group;
  for (int peer = 0; peer < world_.ranks(); ++peer) world_.send(std::span<const int>(mine), peer, 5);
  world_.all_reduce(std::span<const int>(ones), std::span(ones));
  for (int peer = 0; peer < world_.ranks(); ++peer) {
    world_.recv(std::span(theirs[static_cast<std::size_t>(peer)]), peer, 5);
  }
  group.end();
  expect("all_reduce in a group", ones, world_.ranks());
  for (std::size_t peer = 0; peer < ranks; ++peer) expect("recv in a group", theirs[peer], static_cast<int>(peer));
}

}  // namespace tutti
