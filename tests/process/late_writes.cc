#include "process/late_writes.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kCount = 300'000;
constexpr std::size_t kShift = 100;  // of the buffer in its memory: what lies around it stays where it is
constexpr std::size_t kPage = 4096;

struct Range {
  std::byte* begin;
  std::byte* end;
};

// Shared memory of tutti that this process maps, its own and that of others.
std::vector<Range> shared_memory() {
  std::vector<Range> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (line.find("rw-s") == std::string::npos || line.find("/memfd:tutti") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    found.push_back({reinterpret_cast<std::byte*>(begin), reinterpret_cast<std::byte*>(end)});
  }
  return found;
}

// Pages outside of [own, own_end) all of whose floats are `value`.
std::vector<float*> pages_of(float value, const void* own, const void* own_end) {
  std::vector<float*> found;
  for (const Range& range : shared_memory()) {
    std::vector<unsigned char> resident(static_cast<std::size_t>(range.end - range.begin) / kPage);
    if (::mincore(range.begin, static_cast<std::size_t>(range.end - range.begin), resident.data()) != 0) continue;
    for (std::size_t i = 0; i < resident.size(); ++i) {
      auto* const page = reinterpret_cast<float*>(range.begin + i * kPage);
      if ((resident[i] & 1) == 0 || (page >= own && page < own_end)) continue;
      if (std::count(page, page + kPage / sizeof(float), value) == kPage / sizeof(float)) found.push_back(page);
    }
  }
  return found;
}

void lose_connections() {
  for (int fd = 3; fd < 1024; ++fd) ::shutdown(fd, SHUT_RDWR);
}

void touch(const std::string& file) { std::ofstream(file) << "here\n"; }
void wait_for(const std::string& file) {
  while (::access(file.c_str(), F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void expect_all(const float* values, std::size_t count, float value, const char* when) {
  const auto wrong = count - static_cast<std::size_t>(std::count(values, values + count, value));
  if (wrong > 0) throw std::runtime_error(std::to_string(wrong) + " of the buffer's elements are wrong " + when);
}

// Comes back when it has been given up and has written.
void write_late(const float* memory, float value, int survivors, const std::string& directory) {
  const std::vector<float*> pages = pages_of(value, memory, memory + kCount + 2 * kShift);
  if (pages.size() < static_cast<std::size_t>(survivors) * 200)
    throw std::runtime_error("it maps none of their outputs");
  touch(directory + "/found");
  for (int rank = 0; rank < survivors; ++rank) wait_for(directory + "/calls" + std::to_string(rank));
  lose_connections();
  for (int rank = 0; rank < survivors; ++rank) wait_for(directory + "/ready" + std::to_string(rank));
  for (float* const page : pages) std::fill_n(page, kPage / sizeof(float), -1.0f);
  touch(directory + "/written");
}

}  // namespace

void check_late_writes(Communicator& world, Memory kind, bool shrinks, const std::string& directory) {
  const std::size_t bytes = (kCount + 2 * kShift) * sizeof(float);
  std::vector<float> own(kind == Memory::kRegistered ? kCount + 2 * kShift : 0);
  auto* const memory = kind == Memory::kRegistered ? own.data() : static_cast<float*>(allocate(bytes));
  const Registration registration = kind == Memory::kRegistered ? register_memory(memory, bytes) : Registration();
  float* const buffer = memory + kShift;
  const auto sum = static_cast<float>(world.ranks());
  for (int call = 0; call < 5; ++call) {
    std::fill_n(buffer, kCount, 1.0f);
    world.all_reduce(buffer, buffer, kCount, DataType::kF32, kSum);
    expect_all(buffer, kCount, sum, "while all ranks live");
  }
  world.barrier();
  const int rank = world.rank();
  if (rank == world.ranks() - 1) {
    write_late(memory, sum, rank, directory);
    ::_exit(0);
  }

  wait_for(directory + "/found");
  std::fill_n(memory, kCount + 2 * kShift, 5.0f);
  HostStream stream;
  const Work call = world.all_reduce(buffer, buffer, kCount, DataType::kF32, kSum, stream);
  while (call.started() == std::chrono::steady_clock::time_point()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  touch(directory + "/calls" + std::to_string(rank));  // its peers may write to its output
  try {
    call.wait();
    throw std::runtime_error("the call ends without the last rank");
  } catch (const Error&) {
    // It was given up.
  }
  std::optional<Communicator> next;
  if (shrinks) {
    next = world.shrink();
  } else {
    world.destroy();
  }
  std::fill_n(buffer, kCount, 7.0f);
  touch(directory + "/ready" + std::to_string(rank));
  wait_for(directory + "/written");
  expect_all(buffer, kCount, 7.0f, "after a late write");
  expect_all(memory, kShift, 5.0f, "before it");
  expect_all(buffer + kCount, kShift, 5.0f, "behind it");
  for (int call = 0; next && call < 5; ++call) {
    std::fill_n(buffer, kCount, 1.0f);
    next->all_reduce(buffer, buffer, kCount, DataType::kF32, kSum);
    expect_all(buffer, kCount, sum - 1, "among the survivors");
  }
  if (next && next->statistics().messages_read_in_place == 0) {
    throw std::runtime_error("the survivors do not use each other's memory");
  }
  if (kind == Memory::kLibrary) deallocate(memory);
}

}  // namespace tutti
