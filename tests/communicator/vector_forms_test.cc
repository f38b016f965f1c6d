// What is special about blocks of different sizes. That they give the right results is also tested wherever all
// collectives are: types_test.cc, sizes_test.cc, buffers_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "communicator/shared_memory.h"
#include "communicator/values.h"
#include "reduce/guarded_memory.h"
#include "support/ranks.h"
#include "tutti/memory.h"

namespace tutti {
namespace {

using Sizes = std::vector<std::size_t>;

// What rank `from` gives to rank `to`, or to everybody.
int value_of(int from, int to, std::size_t element) {
  return from * 1'000'000 + to * 10'000 + static_cast<int>(element % 9973);
}

class VectorForms : public testing::TestWithParam<std::vector<int>> {
 protected:
  static int ranks() { return static_cast<int>(GetParam().size()); }
};
INSTANTIATE_TEST_SUITE_P(Placements, VectorForms,
                         testing::Values(std::vector{0}, std::vector{0, 0, 0}, std::vector{0, 1, 2},
                                         std::vector{0, 0, 1, 1, 2}),
                         [](const auto& info) {
                           std::string name = "Hosts";
                           for (const int host : info.param) name += std::to_string(host);
                           return name;
                         });

// All counts zero but one, at every rank in turn; sizes of many rounds among them.
TEST_P(VectorForms, LetOneRankHaveEverything_F68) {
  RankSetup setup = on_hosts(GetParam());
  setup.options.config["TUTTI_CHUNK_BYTES"] = "4096";
  expect_ranks(
      ranks(),
      [](Communicator& communicator) {
        const auto n = static_cast<std::size_t>(communicator.ranks());
        const auto rank = static_cast<std::size_t>(communicator.rank());
        for (std::size_t owner = 0; owner < n; ++owner) {
          for (const std::size_t count : {0, 1, 1023, 1024, 1025, 7919, 70'001}) {
            Sizes counts(n, 0);
            counts[owner] = count;
            std::vector<int> all(count), own(rank == owner ? count : 0);
            doing("all_gather_v of " + std::to_string(count) + " at rank " + std::to_string(owner));
            for (std::size_t i = 0; i < own.size(); ++i) own[i] = value_of(communicator.rank(), 0, i);
            communicator.all_gather_v(std::span<const int>(own), std::span(all), counts);
            for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(all[i], value_of(static_cast<int>(owner), 0, i));
            doing("reduce_scatter_v");
            for (std::size_t i = 0; i < count; ++i) all[i] = value_of(communicator.rank(), 1, i);
            communicator.reduce_scatter_v(std::span<const int>(all), std::span(own), counts, {}, kMax);
            for (std::size_t i = 0; i < own.size(); ++i) ASSERT_EQ(own[i], value_of(static_cast<int>(n) - 1, 1, i));
          }
        }
      },
      setup);
}

// Rank f gives (f + 2·t)·step elements to rank t: every pair has another number of rounds, every rank too.
TEST_P(VectorForms, ExchangeBlocksOfEveryPairsOwnSize_F68) {
  RankSetup setup = on_hosts(GetParam());
  setup.options.config["TUTTI_CHUNK_BYTES"] = "1024";
  setup.options.config["TUTTI_CHANNELS"] = "3";
  expect_ranks(
      ranks(),
      [](Communicator& communicator) {
        const int n = communicator.ranks();
        const int rank = communicator.rank();
        for (const std::size_t step : {0, 1, 100, 255, 256, 257, 3001}) {
          const auto size = [step](int from, int to) { return static_cast<std::size_t>(from + 2 * to) * step; };
          Sizes given, taken;
          std::vector<int> input, expected;
          for (int peer = 0; peer < n; ++peer) {
            given.push_back(size(rank, peer));
            taken.push_back(size(peer, rank));
            for (std::size_t i = 0; i < given.back(); ++i) input.push_back(value_of(rank, peer, i));
            for (std::size_t i = 0; i < taken.back(); ++i) expected.push_back(value_of(peer, rank, i));
          }
          std::vector<int> output(expected.size(), -1);
          doing("all_to_all_v with steps of " + std::to_string(step));
          communicator.all_to_all_v(std::span<const int>(input), given, {}, std::span(output), taken, {});
          ASSERT_TRUE(output == expected) << "rank " << rank << ", steps of " << step;
        }
      },
      setup);
}

TEST_P(VectorForms, MayGiveOneInputBlockToSeveralRanks) {
  expect_ranks(
      ranks(),
      [](Communicator& communicator) {
        const auto n = static_cast<std::size_t>(communicator.ranks());
        std::vector<int> input(700), output(700 * n);
        for (std::size_t i = 0; i < input.size(); ++i) input[i] = value_of(communicator.rank(), 0, i);
        const Sizes counts(n, 700), same(n, 0);
        communicator.all_to_all_v(std::span<const int>(input), counts, same, std::span(output), counts, {});
        for (std::size_t i = 0; i < output.size(); ++i) {
          ASSERT_EQ(output[i], value_of(static_cast<int>(i / 700), 0, i % 700));
        }
      },
      on_hosts(GetParam()));
}

// All ranks wait in the call for one that comes late: the messages that are there meanwhile are right.
TEST_P(VectorForms, WaitForALateRankWithoutSuspectingTheOthers) {
  expect_ranks(
      ranks(),
      [](Communicator& communicator) {
        const auto n = static_cast<std::size_t>(communicator.ranks());
        const auto rank = static_cast<std::size_t>(communicator.rank());
        if (rank + 1 == n) std::this_thread::sleep_for(std::chrono::milliseconds(1300));
        Sizes given(n), taken(n);
        for (std::size_t peer = 0; peer < n; ++peer) {
          given[peer] = rank * 10 + peer;
          taken[peer] = peer * 10 + rank;
        }
        std::vector<int> input(std::accumulate(given.begin(), given.end(), std::size_t{0}), communicator.rank());
        std::vector<int> output(std::accumulate(taken.begin(), taken.end(), std::size_t{0}));
        communicator.all_to_all_v(std::span<const int>(input), given, {}, std::span(output), taken, {});
        EXPECT_EQ(std::count(output.begin(), output.end(), static_cast<int>(n) - 1),
                  static_cast<std::ptrdiff_t>(taken.back()));
      },
      on_hosts(GetParam()));
}

// Each block ends where the next page may not be touched: a base and offsets say where they lie.
TEST_P(VectorForms, TouchNothingBetweenTheirBlocks_F75) {
  prepare_reference();
  expect_ranks(
      ranks(),
      [](Communicator& communicator) {
        const auto n = static_cast<std::size_t>(communicator.ranks());
        std::vector<std::unique_ptr<GuardedMemory>> pieces;
        for (std::size_t block = 0; block < 2 * n + 1; ++block) pieces.push_back(std::make_unique<GuardedMemory>(1));
        for (const DataType type : {DataType::kI8, DataType::kF16, DataType::kF64}) {
          const std::size_t size = element_size(type);
          for (const std::size_t most : {1, 7, 97, 1001}) {
            Sizes counts(n);
            for (std::size_t block = 0; block < n; ++block) counts[block] = block % 3 == 1 ? 0 : most - block % 2;
            const auto offsets = [&](std::size_t first, const Sizes& blocks, std::byte*& base) {
              base = pieces[first]->begin();
              for (std::size_t block = 0; block < n; ++block) base = std::min(base, pieces[first + block]->begin());
              Sizes result(n);
              for (std::size_t block = 0; block < n; ++block) {
                const std::byte* begin = pieces[first + block]->end() - blocks[block] * size;
                std::memset(pieces[first + block]->begin(), 1, pieces[first + block]->bytes());
                result[block] = static_cast<std::size_t>(begin - base) / size;
              }
              return result;
            };
            std::byte* many = nullptr;
            const Sizes places = offsets(0, counts, many);
            const std::size_t own = counts[static_cast<std::size_t>(communicator.rank())];
            std::byte* single = pieces[2 * n]->end() - own * size;
            std::memset(single, 1, own * size);
            doing("all_gather_v");
            communicator.all_gather_v(single, many, counts, places, type);
            doing("reduce_scatter_v");
            communicator.reduce_scatter_v(many, single, counts, places, type, kMax);
            doing("all_to_all_v");
            Sizes given(n), taken(n);
            for (std::size_t peer = 0; peer < n; ++peer) {
              given[peer] = counts[(static_cast<std::size_t>(communicator.rank()) + 2 * peer) % n];
              taken[peer] = counts[(peer + 2 * static_cast<std::size_t>(communicator.rank())) % n];
            }
            std::byte *from = nullptr, *to = nullptr;
            const Sizes sources = offsets(0, given, from);
            const Sizes targets = offsets(n, taken, to);
            communicator.all_to_all_v(from, given, sources, to, taken, targets, type);
          }
        }
      },
      on_hosts(GetParam()));
}

// Each block has the result that all_reduce has there, with the same bits.
TEST_P(VectorForms, ReduceReproducibly_F73) {
  RankSetup setup = on_hosts(GetParam());
  setup.options.reproducible = true;
  expect_ranks(
      ranks(),
      [](Communicator& communicator) {
        const auto n = static_cast<std::size_t>(communicator.ranks());
        const auto rank = static_cast<std::size_t>(communicator.rank());
        Sizes counts(n);
        for (std::size_t block = 0; block < n; ++block) counts[block] = 50 + block * 777;
        const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        std::vector<float> input(all), sums(all), own(counts[rank]);
        for (std::size_t i = 0; i < all; ++i) {
          input[i] = static_cast<float>((i * 31 + rank * 17) % 1013) / 7 * static_cast<float>(1 << (i + rank) % 11);
        }
        communicator.all_reduce(std::span<const float>(input), std::span(sums));
        communicator.reduce_scatter_v(std::span<const float>(input), std::span(own), counts);
        const std::size_t first = std::accumulate(counts.begin(), counts.begin() + communicator.rank(), std::size_t{0});
        EXPECT_EQ(std::memcmp(own.data(), sums.data() + first, own.size() * sizeof(float)), 0);
      },
      setup);
}

// The start of the buffer lies in front of the library's memory: the first block does not.
TEST(VectorForms, AreReadInPlaceInTheLibrarysMemory) {
  if (!kSeesSharedMemory) GTEST_SKIP() << kWhyItDoesNot;
  expect_ranks(2, [](Communicator& communicator) {
    constexpr std::size_t kCount = 100'000;
    const auto rank = static_cast<std::size_t>(communicator.rank());
    auto* memory = static_cast<int*>(allocate(2 * kCount * sizeof(int)));
    const std::size_t front = 5000;
    int* base = reinterpret_cast<int*>(reinterpret_cast<std::uintptr_t>(memory) - front * sizeof(int));
    const Sizes counts = {kCount, kCount / 2}, offsets = {front + kCount, front};
    for (int i = 0; i < 5; ++i) {
      std::fill_n(memory, 2 * kCount, -1);
      std::fill_n(base + offsets[rank], counts[rank], communicator.rank() + i);
      communicator.all_gather_v(base + offsets[rank], base, counts, offsets, DataType::kI32);
      for (std::size_t peer = 0; peer < 2; ++peer) {
        ASSERT_EQ(std::count(base + offsets[peer], base + offsets[peer] + counts[peer], static_cast<int>(peer) + i),
                  static_cast<std::ptrdiff_t>(counts[peer]));
      }
      ASSERT_EQ(std::count(memory, memory + 2 * kCount, -1), static_cast<std::ptrdiff_t>(kCount / 2));
    }
    EXPECT_GT(communicator.statistics().messages_read_in_place, 0u);
    communicator.barrier();
    deallocate(memory);
  });
}

// A call on a stream runs when its caller may long have forgotten the lists.
TEST(VectorForms, OutliveTheListsThatTheyWereCalledWith) {
  expect_ranks(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    HostStream stream;
    std::vector<std::vector<int>> outputs;
    std::vector<Work> works;
    std::vector<int> input(500, rank);
    for (std::size_t i = 0; i < 20; ++i) {
      outputs.emplace_back(3 * 500, -1);
      Sizes counts = {i, 2 * i, 500};
      Sizes offsets = {0, 500, 1000};
      const auto own = std::span<const int>(input).first(counts[static_cast<std::size_t>(rank)]);
      works.push_back(communicator.all_gather_v(own, std::span(outputs.back()), counts, offsets, stream));
      std::fill(counts.begin(), counts.end(), ~std::size_t{0});
      std::fill(offsets.begin(), offsets.end(), ~std::size_t{0});
    }
    for (const Work& work : works) work.wait();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<int>& output = outputs[i];
      EXPECT_EQ(std::count(output.begin(), output.begin() + 500, 0), static_cast<std::ptrdiff_t>(i));
      EXPECT_EQ(std::count(output.begin() + 500, output.begin() + 1000, 1), static_cast<std::ptrdiff_t>(2 * i));
      EXPECT_EQ(std::count(output.begin() + 1000, output.end(), 2), 500);
    }
  });
}

TEST(VectorForms, TellTheirPlanByName) {
  expect_ranks(2, [](Communicator& communicator) {
    for (const char* form : {"all_gather_v", "reduce_scatter_v", "all_to_all_v"}) {
      EXPECT_NE(communicator.plan(form, 1000, DataType::kF32).find("over shm"), std::string::npos);
    }
    EXPECT_EQ(communicator.plan("all_to_all_v", 1, DataType::kF32),
              communicator.plan("all_to_all_v", 10'000'000, DataType::kF32));
  });
}

// What a call throws, and that it leaves the communicator usable.
void expect_refused(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "accepted what should say \"" << parts.front() << "\"";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "no \"" << part << "\": " << error.what();
    }
  }
}

TEST(VectorForms, RefuseBlocksThatMakeNoSense) {
  expect_ranks(3, [](Communicator& c) {
    std::vector<float> floats(64);
    float* f = floats.data();
    auto* bytes = reinterpret_cast<std::byte*>(f);
    const auto type = DataType::kF32;
    const auto rank = static_cast<std::size_t>(c.rank());
    const Sizes two(2, 1), three = {2, 3, 4}, none(3, 0), apart = {0, 10, 20};
    const std::size_t huge = ~std::size_t{0} / 8;
    if (c.rank() == 1) {
      expect_refused([&] { c.all_gather_v(f, f, two, {}, type); },
                     {"all_gather_v", "\"world\"", "2 entries", "3 ranks"});
      expect_refused([&] { c.all_gather_v(f, f, three, two, type); }, {"offsets has 2 entries", "3 ranks"});
      expect_refused([&] { c.all_to_all_v(f, three, {}, f, two, {}, type); }, {"output_counts has 2 entries"});
      expect_refused(
          [&] {
            c.all_gather_v(f, f + 32, three, Sizes{0, 1, 10}, type);
          },
          {"blocks 0 and 1 of the output overlap"});
      expect_refused(
          [&] {
            c.all_gather_v(f, f + 32, three, Sizes{20, 1, 3}, type);
          },
          {"blocks 1 and 2 of the output overlap"});
      expect_refused([&] { c.all_gather_v(f, nullptr, three, {}, type); }, {"output is null", "block 0 has 2"});
      expect_refused([&] { c.all_gather_v(nullptr, f, three, {}, type); }, {"input is null", "block 1 has 3"});
      expect_refused([&] { c.reduce_scatter_v(bytes + 1, f + 32, three, {}, type, kSum); }, {"input", "not aligned"});
      expect_refused([&] { c.reduce_scatter_v(f, bytes + 130, three, {}, type, kSum); }, {"output", "not aligned"});
      expect_refused([&] { c.all_gather_v(f + 32, f, Sizes{1, 3, huge}, {}, type); }, {"block 2 of the output", "fit"});
      expect_refused(
          [&] {
            c.all_gather_v(f + 32, f, three, Sizes{0, 10, ~std::size_t{0} - 2}, type);
          },
          {"block 2 of the output", "fit"});
      expect_refused([&] { c.reduce_scatter_v(f, f + 32, Sizes(3, ~std::size_t{0} / 4), Sizes(3, 0), type, kSum); },
                     {"block 0 of the input", "fit"});
      expect_refused([&] { c.all_gather_v(f + 1, f, three, {}, type); },
                     {"block 1 of the input and block 0 of the output overlap", "output + offsets[rank]"});
      expect_refused([&] { c.reduce_scatter_v(f, f + 21, three, apart, type, kSum); },
                     {"block 2 of the input and block 1 of the output overlap", "input + offsets[rank]"});
      // In place, but another block has a part of the same elements.
      expect_refused(
          [&] {
            c.reduce_scatter_v(f, f + 10, three, Sizes{11, 10, 20}, type, kSum);
          },
          {"block 0 of the input and block 1 of the output overlap"});
      expect_refused([&] { c.all_to_all_v(f, three, {}, f + 5, three, {}, type); },
                     {"block 2 of the input and block 0 of the output overlap", "separate buffers"});
      expect_refused([&] { c.all_to_all_v(f, three, {}, f + 32, two, {}, type); }, {"3 ranks"});
      expect_refused(
          [&] {
            c.all_to_all_v(f, three, {}, f + 32, Sizes{2, 4, 4}, {}, type);
          },
          {"input_counts[1] is 3", "output_counts[1] is 4"});
      expect_refused([&] { c.reduce_scatter_v(f, f + 32, three, {}, type, kBxor); }, {"bxor", "f32"});
      expect_refused([&] { c.all_gather_v(f, f, three, {}, static_cast<DataType>(99)); }, {"99"});
      const std::span<const float> in(floats);
      expect_refused([&] { c.all_gather_v(in.first(2), std::span(floats).last(9), three); }, {"input", "2", "3"});
      expect_refused([&] { c.all_gather_v(in.first(3), std::span(floats).last(8), three); }, {"block 2", "8 elements"});
      expect_refused([&] { c.all_gather_v(in.first(3), std::span(floats).last(10), three); }, {"10 elements", "9"});
      expect_refused([&] { c.all_gather_v(in.first(3), std::span(floats).last(20), three, apart); }, {"block 2", "20"});
      expect_refused([&] { c.all_gather_v(in.first(3), std::span(floats).last(20), two); }, {"2 elements", "3"});
    }
    // Empty blocks may lie anywhere; blocks may touch.
    c.all_gather_v(nullptr, nullptr, none, {}, type);
    c.all_gather_v(nullptr, f, none, Sizes{~std::size_t{0}, 5, 5}, type);
    c.all_gather_v(f + 40, f, three, Sizes{7, 4, 0}, type);
    c.all_gather_v(f + three[rank] * 0 + Sizes{7, 4, 0}[rank], f, three, Sizes{7, 4, 0}, type);
  });
}

// Ranks that disagree.

void expect_mismatch(const std::vector<RankEnd>& ends, const std::vector<std::string>& parts) {
  for (std::size_t r = 0; r < ends.size(); ++r) {
    ASSERT_TRUE(ends[r].error) << "rank " << r << ": " << ends[r].text;
    EXPECT_EQ(ends[r].error->code(), ErrorCode::kMismatch) << "rank " << r << ": " << ends[r].text;
    for (const std::string& part : parts) {
      EXPECT_NE(ends[r].text.find(part), std::string::npos)
          << "rank " << r << " does not say " << part << ": " << ends[r].text;
    }
  }
}

class VectorMismatch : public testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Placements, VectorMismatch,
                         testing::Values(std::vector{0, 0, 0}, std::vector{0, 1, 2}, std::vector{0, 0, 1}),
                         [](const auto& info) {
                           std::string name = "Hosts";
                           for (const int host : info.param) name += std::to_string(host);
                           return name;
                         });

TEST_P(VectorMismatch, OfCountsThatAllShouldKnowNamesBothCalls_F67) {
  for (const std::size_t scale : {1, 20'000}) {
    const Sizes most = {4 * scale, 0, 6 * scale};
    const Sizes more = {4 * scale, 1, 6 * scale};
    const Sizes moved = {6 * scale, 0, 4 * scale};  // as many, elsewhere
    for (const Sizes& odd : {more, moved}) {
      for (const bool reduces : {false, true}) {
        const auto ends = run_ranks(
            3,
            [&](Communicator& communicator) {
              const Sizes& counts = communicator.rank() == 1 ? odd : most;
              const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
              GuardedBuffer many(all * 4, 0);
              GuardedBuffer own(counts[static_cast<std::size_t>(communicator.rank())] * 4, 0);
              try {
                if (reduces) {
                  communicator.reduce_scatter_v(many.data(), own.data(), counts, {}, DataType::kI32, kMax);
                } else {
                  communicator.all_gather_v(own.data(), many.data(), counts, {}, DataType::kI32);
                }
                communicator.barrier();
              } catch (const Error&) {
                EXPECT_TRUE(many.intact() && own.intact());
                throw;
              }
            },
            on_hosts(GetParam()));
        const std::string call = reduces ? "reduce_scatter_v i32×" : "all_gather_v i32×";
        expect_mismatch(ends, {call + std::to_string(10 * scale),
                               call + std::to_string(odd[1] + 10 * scale) + (reduces ? " max" : "") + " in blocks #"});
      }
    }
  }
}

TEST_P(VectorMismatch, OfAPairsCountNamesBothRanksAndWhatEachSaid_F67) {
  struct Case {
    std::size_t said, expected;
  };
  for (const Case& what : {Case{9, 7}, Case{0, 7}, Case{9, 0}, Case{300'000, 299'999}, Case{5, 300'000}}) {
    const auto ends = run_ranks(
        3,
        [&](Communicator& communicator) {
          Sizes given(3, 1), taken(3, 1);
          if (communicator.rank() == 1) given[0] = what.said;
          if (communicator.rank() == 0) taken[1] = what.expected;
          GuardedBuffer input((given[0] + 2) * 4, 0), output((taken[1] + 2) * 4, 0);
          try {
            communicator.barrier();
            communicator.all_to_all_v(input.data(), given, {}, output.data(), taken, {}, DataType::kI32);
            communicator.barrier();
          } catch (const Error&) {
            EXPECT_TRUE(input.intact() && output.intact());
            throw;
          }
        },
        on_hosts(GetParam()));
    expect_mismatch(ends,
                    {"rank 1", "sends " + std::to_string(what.said) + " elements to rank 0", "#2 all_to_all_v i32",
                     "expects " + std::to_string(what.expected), "input_counts[0]", "output_counts[1]"});
  }
}

TEST_P(VectorMismatch, OfAVectorFormAndAnotherCallNamesBoth_F67) {
  const auto ends = run_ranks(
      3,
      [](Communicator& communicator) {
        std::vector<int> input(30), output(30);
        const Sizes counts(3, 10);
        if (communicator.rank() == 1) {
          communicator.all_to_all(input.data(), output.data(), 10, DataType::kI32);
        } else {
          communicator.all_to_all_v(input.data(), counts, {}, output.data(), counts, {}, DataType::kI32);
        }
        communicator.barrier();
      },
      on_hosts(GetParam()));
  expect_mismatch(ends, {"all_to_all_v i32", "all_to_all i32×10"});
}

}  // namespace
}  // namespace tutti
