#include <gtest/gtest.h>

#include "communicator/arguments.h"
#include "communicator/values.h"
#include "support/ranks.h"

namespace tutti {
namespace {

using Kind = ReduceOp::Kind;

struct Disagreement {
  std::string name;
  TestCall most;  // what all ranks but rank 1 call
  TestCall odd;   // what rank 1 calls
};
std::ostream& operator<<(std::ostream& out, const Disagreement& what) { return out << what.name; }

std::vector<Disagreement> disagreements() {
  std::vector<Disagreement> all;
  for (const std::size_t count : {10, 200'000}) {
    const std::string size = count == 10 ? "Short" : "Long";
    const TestCall sum{Collective::kAllReduce, DataType::kF32, Kind::kSum, count, 0, false, 1};
    const auto changed = [&sum](const std::function<void(TestCall&)>& change) {
      TestCall call = sum;
      change(call);
      return call;
    };
    all.push_back({size + "Counts_F67", sum, changed([](TestCall& c) { c.count *= 2; })});
    all.push_back({size + "CountsBySlightlyMore_F67", sum, changed([](TestCall& c) { ++c.count; })});
    all.push_back({size + "Types_F67", sum, changed([](TestCall& c) { c.type = DataType::kI32; })});
    all.push_back({size + "Ops_F67", sum, changed([](TestCall& c) { c.op = Kind::kMax; })});
    all.push_back({size + "Collectives_F67", sum, changed([](TestCall& c) { c.collective = Collective::kAllGather; })});
    all.push_back({size + "CallAgainstBarrier_F67", sum, changed([](TestCall& c) {
                     c.collective = Collective::kBarrier;
                     c.count = 0;
                   })});
    for (const Collective rooted :
         {Collective::kBroadcast, Collective::kReduce, Collective::kGather, Collective::kScatter}) {
      TestCall first = sum;
      first.collective = rooted;
      TestCall second = first;
      second.root = 1;
      all.push_back({size + "RootsOf_" + tutti::name(rooted) + "_F67", first, second});
      second.root = 2;
      all.push_back({size + "ThirdRootOf_" + tutti::name(rooted) + "_F67", first, second});
    }
  }
  return all;
}

CallShape shape_of(const TestCall& call) {
  if (call.collective == Collective::kBarrier) return {};
  return {call.collective, call.type, call.op, static_cast<std::uint32_t>(call.root), call.count};
}

class Mismatch : public testing::TestWithParam<std::tuple<const char*, Disagreement>> {};
INSTANTIATE_TEST_SUITE_P(Calls, Mismatch,
                         testing::Combine(testing::Values("0", "1"), testing::ValuesIn(disagreements())),
                         [](const auto& info) {
                           return std::get<1>(info.param).name +
                                  (*std::get<0>(info.param) == '0' ? "_SharedMemory" : "_Tcp");
                         });

// Some ranks can finish the call itself: they learn of it in the barrier at the latest.
TEST_P(Mismatch, IsAnErrorOnAllRanksThatNamesBothCalls) {
  const auto& [shm_disable, what] = GetParam();
  RankSetup setup = with_config({{"TUTTI_SHM_DISABLE", shm_disable}});
  setup.options.name = "dp";
  const auto ends = run_ranks(
      3,
      [&what = what](Communicator& communicator) {
        const int rank = communicator.rank();
        const TestCall& call = rank == 1 ? what.odd : what.most;
        const std::size_t block = call.count * element_size(call.type);
        GuardedBuffer input(blocks_in(call, rank, 3) * block, 0);
        GuardedBuffer output(blocks_out(call, rank, 3) * block, 0);
        doing(describe(call));
        try {
          issue(communicator, call, input.data(), output.data());
          doing("the barrier");
          communicator.barrier();
        } catch (const Error&) {
          EXPECT_TRUE(input.intact() && output.intact()) << "rank " << rank << " had memory overwritten";
          // A failed communicator stays failed, for the same reason.
          try {
            communicator.barrier();
            ADD_FAILURE() << "rank " << rank << ": a failed communicator worked";
          } catch (const Error& again) {
            EXPECT_EQ(again.code(), ErrorCode::kMismatch) << again.what();
          }
          throw;
        }
      },
      setup);
  for (std::size_t r = 0; r < ends.size(); ++r) {
    ASSERT_TRUE(ends[r].error) << "rank " << r << ": " << ends[r].text;
    EXPECT_EQ(ends[r].error->code(), ErrorCode::kMismatch) << "rank " << r << ": " << ends[r].text;
    EXPECT_EQ(ends[r].error->peer(), Error::kNoPeer) << "nobody knows whose call is wrong: " << ends[r].text;
    for (const std::string& part :
         {describe(shape_of(what.most)), describe(shape_of(what.odd)), std::string("\"dp\"")}) {
      EXPECT_NE(ends[r].text.find(part), std::string::npos)
          << "rank " << r << " does not say " << part << ": " << ends[r].text;
    }
  }
}

void expect_mismatch(const std::vector<RankEnd>& ends, const std::vector<std::string>& parts) {
  for (std::size_t r = 0; r < ends.size(); ++r) {
    ASSERT_TRUE(ends[r].error) << "rank " << r << ": " << ends[r].text;
    EXPECT_EQ(ends[r].error->code(), ErrorCode::kMismatch) << "rank " << r << ": " << ends[r].text;
    EXPECT_EQ(ends[r].error->peer(), Error::kNoPeer) << "nobody knows whose call is wrong: " << ends[r].text;
    for (const std::string& part : parts) {
      EXPECT_NE(ends[r].text.find(part), std::string::npos)
          << "rank " << r << " does not say " << part << ": " << ends[r].text;
    }
  }
}

class Mismatches : public testing::TestWithParam<const char*> {
 protected:
  static RankSetup setup() { return with_config({{"TUTTI_SHM_DISABLE", GetParam()}}); }
};
INSTANTIATE_TEST_SUITE_P(Transports, Mismatches, testing::Values("0", "1"),
                         [](const auto& info) { return info.param[0] == '0' ? "SharedMemory" : "Tcp"; });

TEST_P(Mismatches, ACallThatOneRankLeavesOutMeetsItsNext) {
  const auto ends = run_ranks(
      3,
      [](Communicator& communicator) {
        std::vector<int> values(100);
        if (communicator.rank() != 2) communicator.all_reduce(std::span<const int>(values), std::span(values));
        communicator.all_reduce(std::span<const int>(values).first(50), std::span(values).first(50));
        communicator.barrier();
      },
      setup());
  expect_mismatch(ends, {"all_reduce i32×100 sum", "all_reduce i32×50 sum"});
}

// Nobody waits in these calls: each root has its data already. Many later calls may go by the message.
TEST_P(Mismatches, TwoRootsAreFoundByTheNextCall) {
  const auto ends = run_ranks(
      2,
      [](Communicator& communicator) {
        int value = 1;
        communicator.barrier();
        communicator.broadcast(std::span(&value, 1), communicator.rank());
        communicator.barrier();
      },
      setup());
  expect_mismatch(ends, {"broadcast i32×1 root 0", "broadcast i32×1 root 1"});
}

// Destroying is no barrier: it finds what has come, as the broadcast's message has before a later one of its sender.
TEST_P(Mismatches, TwoRootsAreFoundByDestroy) {
  const auto ends = run_ranks(
      2,
      [](Communicator& communicator) {
        int value = 1;
        communicator.broadcast(std::span(&value, 1), communicator.rank());
        for (const int sender : {0, 1}) {
          if (communicator.rank() == sender) communicator.send(&value, 1, DataType::kI32, 1 - sender);
          if (communicator.rank() != sender) communicator.recv(&value, 1, DataType::kI32, sender);
        }
        communicator.destroy();
      },
      setup());
  expect_mismatch(ends, {"broadcast i32×1 root 0", "broadcast i32×1 root 1"});
}

TEST_P(Mismatches, ASendThatIsLongerThanItsReceiveOrOfAnotherTypeIsAnErrorOnBoth_F67) {
  for (const std::size_t count : {10, 18, 100, 1024, 100'000}) {
    for (const auto& [received, type] : {std::pair(count - 1, DataType::kF32), std::pair(count, DataType::kI32),
                                         std::pair(count + 1, DataType::kI32)}) {
      const auto ends = run_ranks(
          2,
          [&, received = received, type = type](Communicator& communicator) {
            GuardedBuffer buffer((communicator.rank() == 0 ? count : received) * sizeof(float), 0);
            try {
              if (communicator.rank() == 0) communicator.send(buffer.data(), count, DataType::kF32, 1, 4);
              if (communicator.rank() == 1) communicator.recv(buffer.data(), received, type, kAnySource, 4);
            } catch (const Error&) {
              EXPECT_TRUE(buffer.intact());
              throw;
            }
          },
          setup());
      expect_mismatch(ends, {"f32×" + std::to_string(count), std::string(name(type)) + "×" + std::to_string(received)});
    }
  }
}

}  // namespace
}  // namespace tutti
