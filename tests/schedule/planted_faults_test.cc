// Plants mistakes in every step of every algorithm that there is: the verifier must notice each of them.
#include <gtest/gtest.h>

#include <string>

#include "collectives/registry.h"
#include "schedule/peer_sets.h"
#include "schedule/text.h"
#include "tiny_schedules.h"
#include "verdicts.h"

namespace tutti {
namespace {

struct Fault {
  const char* what;
  // Returns false where the step offers no place for this mistake.
  bool (*plant)(Step&, const Layout&, const Chunking&);
};

bool shift(const Step& step, std::uint16_t& chunk, Space space, const Chunking& chunking) {
  if (space == Space::kNone || step.count == 0) return false;
  // Bruck rotates values through scratch: the wrong place may hold the right value too.
  if (space == Space::kScratch && step.kind == StepKind::kCopy) return false;
  // Chunks of one length, if there are several: a wrong length alone would be too easy to find.
  chunk = static_cast<std::uint16_t>(chunk + chunking.chunks);
  return true;
}

const Fault kFaults[] = {
    {"the source is the wrong chunk",
     [](Step& step, const Layout&, const Chunking& chunking) {
       return shift(step, step.source, step.source_space, chunking);
     }},
    {"the destination is the wrong chunk",
     [](Step& step, const Layout&, const Chunking& chunking) {
       return shift(step, step.destination, step.destination_space, chunking);
     }},
    {"the own contribution is copied over the sum",
     [](Step& step, const Layout&, const Chunking&) {
       if (step.kind != StepKind::kReduce || step.source_space == Space::kNone || step.count == 0) return false;
       step.kind = StepKind::kCopy;
       step.from = kNobody;
       return true;
     }},
    {"the input map is missing",
     [](Step& step, const Layout&, const Chunking&) {
       const bool there = step.first != 0;
       step.first = 0;
       return there;
     }},
    {"the output map is missing",
     [](Step& step, const Layout&, const Chunking&) {
       const bool there = step.last != 0;
       step.last = 0;
       return there;
     }},
    {"the message goes to nobody",
     [](Step& step, const Layout& layout, const Chunking&) {
       if (!sends(step) || step.kind != StepKind::kReduceSend || !stores(step)) return false;
       if (set_size(layout, step.to) == 0) return false;
       step.kind = StepKind::kReduce;
       step.to = kNobody;
       step.readable = kReadableNever;
       return true;
     }},
    {"the message goes to the wrong rank",
     [](Step& step, const Layout& layout, const Chunking&) {
       if (step.to >= kFirstNamedSet || layout.ranks < 3) return false;
       do {
         step.to = static_cast<PeerSet>((step.to + 1) % layout.ranks);
       } while (step.to == layout.rank);
       return true;
     }},
    {"the message is awaited from the wrong rank",
     [](Step& step, const Layout& layout, const Chunking&) {
       if (step.from >= kFirstNamedSet || layout.ranks < 3) return false;
       do {
         step.from = static_cast<PeerSet>((step.from + 1) % layout.ranks);
       } while (step.from == layout.rank);
       return true;
     }},
};

class PlantedFaults : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedFaults, AreFound) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  int planted = 0;
  for (const int ranks : {1, 2, 3, 4, 6}) {
    for (const int hosts : {1, 2}) {
      if (hosts > ranks) continue;
      const Placement placement = even_placement(ranks, hosts);
      if (!algorithm.applies(placement.layout(0))) continue;
      const int root = is_rooted(algorithm.collective) ? ranks - 1 : 0;
      const Chunking chunking = algorithm.chunking(placement.layout(0));
      Lists right(static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        const Layout layout = placement.layout(rank);
        for (int i = 0; i < algorithm.steps(layout, root); ++i) right[rank].push_back(algorithm.step(layout, root, i));
      }
      const auto check = [&](const Lists& lists) {
        return verify(Tiny<>::algorithm(algorithm.collective, lists, chunking, algorithm.reproducible), placement,
                      root);
      };
      ASSERT_TRUE(is_right(check(right)));
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::size_t index = 0; index < right[rank].size(); ++index) {
          for (const Fault& fault : kFaults) {
            Lists lists = right;
            if (!fault.plant(lists[rank][index], placement.layout(rank), chunking)) continue;
            ++planted;
            EXPECT_FALSE(check(lists).right) << ranks << " ranks, rank " << rank << ", step " << index << " ("
                                             << text(right[rank][index]) << "): " << fault.what;
          }
        }
      }
    }
  }
  RecordProperty("planted", planted);
}

std::string test_name(const testing::TestParamInfo<std::size_t>& info) {
  const Algorithm& algorithm = algorithms()[info.param];
  return std::string(name(algorithm.collective)) + "_" + std::string(algorithm.name);
}

INSTANTIATE_TEST_SUITE_P(Every, PlantedFaults, testing::Range(std::size_t{0}, algorithms().size()), test_name);

}  // namespace
}  // namespace tutti
