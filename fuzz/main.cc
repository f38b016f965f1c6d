// What all targets have in common: libFuzzer's entry points, random numbers that can be repeated, and seeds.
#include <sodium.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/log.h"
#include "fuzz/target.h"

namespace {

std::uint64_t random_state = 0;

// xorshift: a finding must be one again when its input is tried alone.
std::uint32_t next_random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return static_cast<std::uint32_t>(random_state >> 16);
}

void fill(void* buffer, std::size_t bytes) {
  auto* to = static_cast<unsigned char*>(buffer);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<unsigned char>(next_random());
}

const char* random_name() { return "repeatable"; }

constexpr std::uint64_t kBeforeInputs = 0x2545F4914F6CDD1D;
constexpr std::uint64_t kEachInput = 0x9E3779B97F4A7C15;

randombytes_implementation repeatable = {random_name, next_random, nullptr, nullptr, fill, nullptr};

void write_seeds(const std::string& directory) {
  int number = 0;
  for (const tutti::fuzz::Bytes& seed : tutti::fuzz::seeds()) {
    std::ofstream file(directory + "/seed-" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
  }
}

}  // namespace

namespace tutti::fuzz {
[[gnu::weak]] void prepare() {}
void restart_random() { random_state = kEachInput; }
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  random_state = kBeforeInputs;
  randombytes_set_implementation(&repeatable);
  if (sodium_init() < 0) return 1;
  tutti::set_log_level(tutti::LogLevel::kError);
  if (const char* directory = std::getenv("TUTTI_FUZZ_SEEDS")) {
    write_seeds(directory);
    std::exit(EXIT_SUCCESS);
  }
  tutti::fuzz::prepare();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzz::restart_random();
  tutti::fuzz::run(std::as_bytes(std::span(data, size)));
  return 0;
}
