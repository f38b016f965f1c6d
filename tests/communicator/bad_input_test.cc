#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/ranks.h"

namespace tutti {
namespace {

// What a call throws; the test fails when it throws nothing or anything else.
void expect_refused(const std::function<void()>& call, const std::vector<std::string>& parts,
                    ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    call();
    ADD_FAILURE() << "accepted what should say \"" << parts.front() << "\"";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "no \"" << part << "\" in: " << error.what();
    }
  }
}

void expect_works(Communicator& communicator) {
  int sum = 1;
  communicator.all_reduce(&sum, &sum, 1, DataType::kI32, kSum);
  EXPECT_EQ(sum, communicator.ranks());
}

TEST(BadArguments, AreRefusedOnTheRankThatPassedThemAndChangeNothing) {
  RankSetup setup;
  setup.options.name = "dp";
  expect_ranks(
      3,
      [](Communicator& communicator) {
        if (communicator.rank() == 1) {
          std::vector<float> floats(64);
          float* f = floats.data();
          auto* bytes = reinterpret_cast<std::byte*>(f);
          const auto f32 = DataType::kF32;
          expect_refused([&] { communicator.all_reduce(nullptr, f, 4, f32, kSum); },
                         {"all_reduce", "\"dp\"", "input is null", "4"});
          expect_refused([&] { communicator.all_gather(f, nullptr, 4, f32); }, {"all_gather", "output is null"});
          expect_refused([&] { communicator.broadcast(f, f, 4, f32, 3); }, {"broadcast", "root 3", "ranks 0 to 2"});
          expect_refused([&] { communicator.reduce(f, f, 4, f32, kSum, -1); }, {"reduce", "root -1", "ranks 0 to 2"});
          expect_refused([&] { communicator.gather(f, f, 0, f32, 7); }, {"gather", "root 7"});
          expect_refused([&] { communicator.scatter(f, f, 4, f32, 1 << 30); }, {"scatter", "root"});
          expect_refused([&] { communicator.all_reduce(f, f + 1, 4, f32, kSum); }, {"overlap", "input == output"});
          expect_refused([&] { communicator.all_gather(f, f, 4, f32); }, {"overlap", "output + rank*count"});
          expect_refused([&] { communicator.reduce_scatter(f, f, 4, f32, kSum); }, {"overlap", "input + rank*count"});
          expect_refused([&] { communicator.all_to_all(f, f + 1, 4, f32); }, {"overlap"});
          expect_refused([&] { communicator.all_reduce(bytes + 2, f + 8, 4, f32, kSum); },
                         {"input", "not aligned", "4 bytes"});
          expect_refused([&] { communicator.all_reduce(f, bytes + 65, 4, f32, kSum); }, {"output", "not aligned"});
          expect_refused([&] { communicator.all_reduce(f, f, 4, f32, kBxor); }, {"bxor", "f32", "integers"});
          expect_refused([&] { communicator.all_reduce(f, f, 4, DataType::kF8E4M3, kBand); }, {"band", "f8e4m3"});
          const auto not_whole = [&](double scalar) {
            expect_refused([&] { communicator.all_reduce(f, f, 4, DataType::kI32, ReduceOp::pre_mul_sum(scalar)); },
                           {"mulsum", "i32", "whole"});
          };
          not_whole(0.5);
          not_whole(std::nan(""));
          not_whole(std::numeric_limits<double>::infinity());
          not_whole(1e30);
          const std::size_t huge = std::numeric_limits<std::size_t>::max() / 8;
          expect_refused([&] { communicator.all_gather(f, f, huge, f32); }, {"count", "too large"});
          expect_refused([&] { communicator.all_reduce(f, f, huge * 4, f32, kSum); }, {"count", "too large"});
          expect_refused([&] { communicator.all_reduce(f, f, 4, static_cast<DataType>(99), kSum); },
                         {"99", "no element type"});
          expect_refused([&] { communicator.all_reduce(f, f, 4, f32, static_cast<ReduceOp::Kind>(50)); },
                         {"50", "no reduction"});

          expect_refused([&] { communicator.send(f, 4, f32, 3); }, {"send", "rank 3", "ranks 0 to 2"});
          expect_refused([&] { communicator.send(f, 4, f32, kAnySource); }, {"send", "rank -1"});
          expect_refused([&] { communicator.recv(f, 4, f32, -2); }, {"recv", "rank -2"});
          expect_refused([&] { communicator.send(nullptr, 4, f32, 0); }, {"send", "null"});
          expect_refused([&] { communicator.recv(nullptr, 1, f32, 0); }, {"recv", "null"});
          expect_refused([&] { communicator.recv(bytes + 1, 1, f32, 0); }, {"recv", "not aligned"});
          expect_refused([&] { communicator.send(f, huge * 4, f32, 0); }, {"send", "count"});
          expect_refused([&] { communicator.send(f, 1, static_cast<DataType>(200), 0); }, {"no element type"});
          expect_refused([&] { communicator.plan("all_reduce", 4, static_cast<DataType>(77)); }, {"no element type"});
          expect_refused([&] { communicator.plan("reduce_everything", 4, f32); }, {"reduce_everything", "all_reduce"});
        }
        expect_works(communicator);
      },
      setup);
}

// What is allowed although it looks odd.
TEST(OddArguments, AreAcceptedWhereTheyMeanSomething) {
  expect_ranks(3, [](Communicator& communicator) {
    std::vector<int> values(12, communicator.rank() + 1);
    // Whatever a rank passes for a buffer that does not count on it.
    void* nonsense = reinterpret_cast<void*>(std::uintptr_t{1});
    const int rank = communicator.rank();
    communicator.reduce(values.data(), rank == 2 ? values.data() : nonsense, 4, DataType::kI32, kSum, 2);
    communicator.gather(values.data() + (rank == 1 ? 4 : 0), rank == 1 ? values.data() : nonsense, 4, DataType::kI32,
                        1);
    communicator.broadcast(rank == 0 ? values.data() : nonsense, values.data(), 4, DataType::kI32, 0);
    communicator.scatter(rank == 0 ? values.data() : nonsense, values.data(), 4, DataType::kI32, 0);
    communicator.all_reduce(values.data(), values.data(), 2, DataType::kI32, ReduceOp::pre_mul_sum(-3));
    // Neighbours that do not overlap.
    communicator.all_reduce(values.data(), values.data() + 4, 4, DataType::kI32, kSum);
    expect_works(communicator);
  });
}

void expect_no_communicator(const RankSetup& setup, ErrorCode code, const std::vector<std::string>& parts) {
  for (const RankEnd& end : run_ranks(
           2, [](Communicator&) { ADD_FAILURE() << "a communicator was made"; }, setup)) {
    ASSERT_TRUE(end.error) << end.text;
    EXPECT_EQ(end.error->code(), code) << end.text;
    for (const std::string& part : parts) {
      EXPECT_NE(end.text.find(part), std::string::npos) << "no \"" << part << "\" in: " << end.text;
    }
  }
}

TEST(BadSettings, AreRefusedWithWhatIsAllowed) {
  const auto refused = [](const std::string& name, const std::string& value, const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.push_back(name);
    expect_no_communicator(with_config({{name, value}}), ErrorCode::kInvalidSetting, all);
  };
  refused("TUTTI_ALGOO", "ring", {"TUTTI_ALGO"});
  refused("TUTTI_CHANNELS", "9", {"9", "4"});
  refused("TUTTI_CHANNELS", "two", {"two"});
  refused("TUTTI_CHUNK_BYTES", "-1", {"-1"});
  refused("TUTTI_SHM_DISABLE", "maybe", {"maybe"});
  refused("TUTTI_DEBUG", "loud", {"loud"});
  refused("TUTTI_MEET_TIMEOUT", "soon", {"soon"});
}

TEST(BadSettings, OfRingsAndChunksThatAreTooSmallAreRefused) {
  for (const char* value : {"1", "4095"}) {
    expect_no_communicator(with_config({{"TUTTI_RING_BYTES", value}}), ErrorCode::kInvalidSetting,
                           {"TUTTI_RING_BYTES=" + std::string(value), "bytes from 4096"});
  }
  expect_no_communicator(with_config({{"TUTTI_CHUNK_BYTES", "1"}}), ErrorCode::kInvalidSetting,
                         {"TUTTI_CHUNK_BYTES=1", "bytes from 256"});
}

TEST(BadSettings, OfAlgorithmsThatDoNotExistOrCannotRunHereAreRefusedWithWhatCan) {
  const auto refused = [](const std::string& value, const std::vector<std::string>& parts) {
    expect_no_communicator(with_config({{"TUTTI_ALGO", value}}), ErrorCode::kInvalidSetting, parts);
  };
  refused("fastest", {"TUTTI_ALGO", "fastest", "two_shot"});
  refused("all_reduce:fastest", {"fastest", "all_reduce", "two_shot"});
  refused("all_produce:ring", {"all_produce", "all_reduce"});
  refused("hierarchical", {"hierarchical", "several hosts"});
  refused("ring;broadcast:ring", {"ring", "broadcast"});
}

TEST(BadSettings, ThatMustAgreeButDoNotAreAnErrorOnBothRanks_F81) {
  RankSetup setup;
  setup.adapt = [](int rank, Options& options) { options.config["TUTTI_CHUNK_BYTES"] = rank == 0 ? "4096" : "8192"; };
  expect_no_communicator(setup, ErrorCode::kMismatch, {"TUTTI_CHUNK_BYTES", "4096", "8192"});
}

// What a table of allowed values admits has to work, whatever it does to speed.
TEST(OddSettings, AtTheirLimitsWork) {
  const std::pair<const char*, const char*> settings[] = {
      {"TUTTI_RING_BYTES", "64K"},   {"TUTTI_RING_BYTES", "69999"}, {"TUTTI_RING_BYTES", "64M"},
      {"TUTTI_CHUNK_BYTES", "256"},  {"TUTTI_CHUNK_BYTES", "1G"},   {"TUTTI_CHANNELS", "4"},
      {"TUTTI_SHM_DIR", "/nowhere"}, {"TUTTI_SILENCE", "1"},
  };
  for (const auto& [name, value] : settings) {
    for (const char* apart : {"0", "1"}) {
      SCOPED_TRACE(std::string(name) + "=" + value + " TUTTI_SHM_DISABLE=" + apart);
      expect_ranks(
          3,
          [](Communicator& communicator) {
            constexpr std::size_t kCount = 3000;
            std::vector<float> values(kCount, 1), all(3 * kCount);
            communicator.all_reduce(values.data(), values.data(), kCount, DataType::kF32, kSum);
            EXPECT_EQ(values[kCount - 1], 3);
            communicator.all_gather(values.data(), all.data(), kCount, DataType::kF32);
            EXPECT_EQ(all[3 * kCount - 1], 3);
          },
          with_config({{name, value}, {"TUTTI_SHM_DISABLE", apart}}));
    }
  }
}

TEST(BadStores, AreRefusedWithTheKeyAndWithoutTheValue) {
  const std::string id = UniqueId::create().to_text();
  const std::string values[] = {
      "", "nonsense", id.substr(0, id.size() - 1), id + id, std::string(1 << 20, 'x'), std::string("tutti1/\0", 8)};
  for (const std::string& value : values) {
    try {
      const Store store{[](const std::string&, const std::string&) {}, [&](const std::string&) { return value; }};
      Communicator::create(store, "the key", 1, 2);
      ADD_FAILURE() << "a communicator was made";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
      EXPECT_NE(text.find("\"the key\" has " + std::to_string(value.size()) + " bytes"), std::string::npos) << text;
      EXPECT_LT(text.size(), 300u);
      EXPECT_EQ(text.find(id.substr(10, 20)), std::string::npos) << "that is a secret";
    }
  }
}

TEST(BadRanks, AndIdsAreRefused) {
  const UniqueId id = UniqueId::create();
  expect_refused([&] { Communicator::create(id, 2, 2); }, {"rank 2", "2"});
  expect_refused([&] { Communicator::create(id, -1, 2); }, {"-1"});
  expect_refused([&] { Communicator::create(id, 0, 0); }, {"0"});
  expect_refused([&] { Communicator::create(UniqueId(), 0, 2); }, {"id"});
  expect_refused([&] { UniqueId::parse("nonsense"); }, {"id"});
  expect_refused([&] { UniqueId::parse(""); }, {"id"});
  Communicator alone = Communicator::create(id, 0, 1);
  expect_works(alone);
}

}  // namespace
}  // namespace tutti
