// Ranks that are far from each other write slots and each other's outputs past their caches, and all ranks what is
// larger than these: every algorithm, at sizes around those at which that begins.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "executor/guarded_call.h"
#include "support/world.h"

namespace tutti {
namespace {

class Streaming : public testing::TestWithParam<std::tuple<int, Buffers>> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Streaming,
                         testing::Combine(testing::Values(2, 3), testing::Values(Buffers::kPrivate, Buffers::kShared)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == Buffers::kShared ? "Shared" : "Private");
                         });

TEST_P(Streaming, EveryAlgorithmGivesTheReferenceResult) {
  const bool reduced = std::getenv("TUTTI_TEST_REDUCED") != nullptr;
  const int ranks = std::get<0>(GetParam());
  WorldOptions options;
  options.hop_ns = 250;
  options.large_ring_bytes = 1024 * 1024;
  const std::size_t threshold = 4096 / sizeof(float);
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> counts;
  for (const std::size_t middle : {threshold, n * threshold, 5 * threshold}) {
    counts.insert(counts.end(), {middle - 1, middle, middle + 1});
  }
  std::uint64_t sequence = 0;
  int sample = 0;
  for (const Algorithm& algorithm : algorithms()) {
    // Soon enough a world notices that its ranks are not far from each other.
    World world(ranks, options);
    for (int r = 0; r < ranks; ++r) world.channel(r, 0).set_cache_shares(10'000, 20'000);
    if (!algorithm.applies(world.layout(0)) || is_vector(algorithm.collective)) continue;
    for (const std::size_t count : counts) {
      if (reduced && ++sample % 3 != 0) continue;
      const bool in_place = ++sequence % 2 == 0;
      SCOPED_TRACE(std::string(name(algorithm.collective)) + " " + std::string(algorithm.name) + " count " +
                   std::to_string(count) + (in_place ? " in place" : ""));
      const CallSetup setup{&algorithm, ranks - 1, count, in_place, 16 * 1024, 1, std::get<1>(GetParam())};
      std::vector<std::unique_ptr<GuardedCall>> parts;
      std::vector<Call*> calls;
      for (int r = 0; r < ranks; ++r) {
        parts.push_back(std::make_unique<GuardedCall>(world, r, setup, sequence));
        parts.back()->start();
        calls.push_back(&parts.back()->call());
      }
      ASSERT_TRUE(world.drive(calls, sequence)) << "nobody gets on";
      for (const auto& part : parts) ASSERT_EQ(part->problem(), "");
    }
    // The longest of these calls look at distances; the short ones need not.
    if (!reduced) {
      ASSERT_EQ(world.channel(0, 0).slot_stores(), StoreKind::kStreaming);
    }
  }
}

// An output goes past the caches when two buffers like the call's larger one exceed this rank's share of the last
// cache, which is larger where peers are far and have a cache of their own; never in place.
TEST(OwnOutputs, AreWrittenPastTheCachesWhenTheyExceedThem) {
  struct Case {
    double hop_ns;
    Buffers buffers;
    bool in_place;
    Collective collective;
    std::size_t count;
    bool streams;
  };
  constexpr std::size_t kNear = 64'000, kFar = 128'000;
  const std::size_t near = kNear / sizeof(float), far = kFar / sizeof(float);
  const std::initializer_list<Case> cases = {
      {50, Buffers::kShared, false, Collective::kAllReduce, near / 2, false},
      {50, Buffers::kShared, false, Collective::kAllReduce, near / 2 + 1, true},
      {50, Buffers::kShared, true, Collective::kAllReduce, 4 * near, false},
      {50, Buffers::kPrivate, false, Collective::kAllReduce, near / 2, false},
      {50, Buffers::kPrivate, false, Collective::kAllReduce, near / 2 + 1, true},
      {50, Buffers::kShared, false, Collective::kAllGather, near / 4, false},
      {50, Buffers::kShared, false, Collective::kAllGather, near / 4 + 1, true},
      {250, Buffers::kShared, false, Collective::kAllReduce, far / 2, false},
      {250, Buffers::kShared, false, Collective::kAllReduce, far / 2 + 1, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(name(c.collective)) + " of " + std::to_string(c.count) + ", hop " +
                 std::to_string(c.hop_ns));
    WorldOptions options;
    options.hop_ns = static_cast<std::uint32_t>(c.hop_ns);
    options.large_ring_bytes = 1024 * 1024;
    World world(2, options);
    for (int r = 0; r < 2; ++r) world.channel(r, 0).set_cache_shares(kNear, kFar);
    const char* algorithm = c.collective == Collective::kAllReduce ? "two_shot" : "one_shot";
    const CallSetup setup{find_algorithm(c.collective, algorithm), 0, c.count, c.in_place, 16 * 1024, 1, c.buffers};
    GuardedCall zero(world, 0, setup, 1), one(world, 1, setup, 1);
    zero.start();
    one.start();
    EXPECT_EQ(zero.call().streams_output, c.streams);
    EXPECT_EQ(one.call().streams_output, c.streams);
    Call* calls[] = {&zero.call(), &one.call()};
    ASSERT_TRUE(world.drive(calls));
    EXPECT_EQ(zero.problem() + one.problem(), "");
  }
}

// What peers time when they look how far a rank is is a word that it has just written, and that only such looks read.
TEST(Distances, AreLookedAtByAWordThatLongCallsWrite) {
  World world(2, {});
  const Algorithm* algorithm = find_algorithm(Collective::kAllReduce, "one_shot");
  std::uint64_t sequence = 0;
  std::uint64_t written = 0;
  for (const std::size_t count : {10, 100'000, 10}) {
    ++sequence;
    const CallSetup setup{algorithm, 0, count, false, 16 * 1024, 1, Buffers::kPrivate};
    GuardedCall zero(world, 0, setup, sequence), one(world, 1, setup, sequence);
    zero.start();
    one.start();
    Call* calls[] = {&zero.call(), &one.call()};
    ASSERT_TRUE(world.drive(calls));
    if (count > 10) written = sequence;
    EXPECT_EQ(observe(*world.channel(0, 0).endpoint(1).long_call_in), written);
  }
}

// On x86-64 nothing shows that streaming stores may pass the store that publishes them, unless they do: so this looks
// for the fence in the code that was generated.
TEST(StreamingStores, AreFencedBeforeTheyArePublished) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "only x86-64 has stores that pass others";
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what is generated for a sanitizer is looked through for half a minute and is not what runs";
#else
  if (std::system("command -v objdump >/dev/null") != 0) GTEST_SKIP() << "there is no objdump";
  std::FILE* const code = ::popen("objdump -d -C --no-show-raw-insn /proc/$PPID/exe", "r");
  ASSERT_NE(code, nullptr);
  std::string function;
  int fences = 0;
  std::vector<char> line(1 << 16);
  while (std::fgets(line.data(), static_cast<int>(line.size()), code) != nullptr) {
    const std::string text = line.data();
    if (text.find(">:") != std::string::npos) function = text;
    const bool is_fence = text.find("sfence") != std::string::npos;
    fences += is_fence && function.find("tutti::StepExecution::") != std::string::npos ? 1 : 0;
  }
  ASSERT_EQ(::pclose(code), 0);
  EXPECT_GT(fences, 0) << "of all functions that execute a step none has a fence";
#endif
}

}  // namespace
}  // namespace tutti
