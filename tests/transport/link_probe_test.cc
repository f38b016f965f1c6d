#include "transport/shm/link_probe.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "transport/shm/segment.h"

namespace tutti {
namespace {

TEST(Tournament, LetsEveryPairMeetOnceAndNobodyPlayTwiceInARound) {
  for (std::uint32_t members = 2; members <= 65; ++members) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> met;
    const int rounds = probe_rounds(members, 1000);
    for (int round = 0; round < rounds; ++round) {
      for (std::uint32_t member = 0; member < members; ++member) {
        const std::uint32_t partner = probe_partner(members, round, member);
        ASSERT_LT(partner, members);
        ASSERT_EQ(probe_partner(members, round, partner), member) << members << " members, round " << round;
        if (member < partner) {
          EXPECT_TRUE(met.emplace(member, partner).second);
        }
      }
    }
    EXPECT_EQ(met.size(), members * (members - 1) / 2) << members;
  }
  EXPECT_EQ(probe_rounds(1000, 66), 66);
  EXPECT_EQ(probe_rounds(1, 66), 0);
}

class LinkProbe : public testing::Test {
 protected:
  explicit LinkProbe(std::uint32_t members = 2) {
    layout_.members = layout_.ranks = members;
    segment_ = Segment::create(layout_.segment_bytes());
    for (std::uint32_t member = 0; member < members; ++member) areas_.push_back(member);
  }

  LinkProbeResult play(std::uint32_t member) {
    LinkProbeRequest request;
    request.layout = &layout_;
    request.segment = segment_.data();
    request.areas = areas_;
    request.own = member;
    request.rated = rated_;
    request.given_up = [this] { return failed_.load(); };
    return probe_links(request);
  }

  SegmentLayout layout_;
  Segment segment_;
  std::vector<std::uint32_t> areas_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> rated_{{0, 1}};
  std::atomic<bool> failed_{false};
};

// On a busy machine they may miss each other: then they say so. What they say is never nonsense.
TEST_F(LinkProbe, MeasuresBothDirectionsOfWhatAPairShares) {
  LinkProbeResult lower, higher;
  std::thread other([&] { higher = play(1); });
  lower = play(0);
  other.join();
  for (const LinkProbeResult* result : {&lower, &higher}) {
    EXPECT_GT(result->core.line_ns, 0);
    EXPECT_GT(result->core.copy_rate, 0);
    ASSERT_LE(result->links.size(), 1u);
  }
  if (lower.links.empty() || higher.links.empty()) GTEST_SKIP() << "the other thread was not there in time";
  EXPECT_EQ(lower.links[0].member, 1u);
  EXPECT_EQ(higher.links[0].member, 0u);
  EXPECT_EQ(higher.links[0].hop_ns, 0) << "the lower one has the clock";
  EXPECT_EQ(lower.links[0].store_rate, 0) << "the higher one stores";
  EXPECT_GE(lower.links[0].hop_ns, 0);
}

TEST_F(LinkProbe, EndsWithoutAPartner) {
  const LinkProbeResult alone = play(0);
  for (const ProbedLink& link : alone.links) {
    EXPECT_EQ(link.hop_ns, 0);
    EXPECT_EQ(link.read_rate, 0);
  }
  const LinkProbeResult late = play(1);  // the other one has left the table
  for (const ProbedLink& link : late.links) EXPECT_EQ(link.store_rate, 0);
}

TEST_F(LinkProbe, EndsWhenTheCommunicatorHasFailed) {
  failed_ = true;
  EXPECT_GT(play(0).core.line_ns, 0);
}

class LinkProbeOfMany : public LinkProbe {
 protected:
  LinkProbeOfMany() : LinkProbe(7) {}
};

// Far more threads than cores: they hardly ever meet, and all end.
TEST_F(LinkProbeOfMany, EndsForMoreThreadsThanCores) {
  std::vector<std::thread> threads;
  std::vector<LinkProbeResult> results(areas_.size());
  for (std::uint32_t member = 0; member < areas_.size(); ++member) {
    threads.emplace_back([&, member] { results[member] = play(member); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t member = 0; member < areas_.size(); ++member) {
    for (const ProbedLink& link : results[member].links) {
      EXPECT_NE(link.member, member);
      EXPECT_LT(link.member, areas_.size());
    }
  }
}

}  // namespace
}  // namespace tutti
