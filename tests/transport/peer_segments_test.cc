#include "transport/shm/peer_segments.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace tutti {
namespace {

class PeerSegmentsTest : public testing::Test {
 protected:
  // What a process of the same number in another process namespace offers: nothing of it is true here.
  static Offer offer_of_a_namesake() {
    return {.segment = 1,
            .process = static_cast<std::uint32_t>(::getpid()),
            .descriptor = -1,
            .bytes = std::uint64_t{64} << 20,
            .nonce = 0x1234};
  }

  Word confirmed_{0};
  PeerSegments segments_{confirmed_};
};

TEST_F(PeerSegmentsTest, ReadsTheMemoryOfAnotherRankOfThisProcess) {
  SharedHeap& heap = SharedHeap::of_process();
  void* const buffer = heap.allocate(4096);
  const auto location = heap.find(buffer, 4096);
  ASSERT_TRUE(location);
  segments_.consider(heap.offer(location->segment));
  EXPECT_EQ(peek(confirmed_), std::uint64_t{1} << location->segment);
  EXPECT_EQ(segments_.resolve({location->segment, location->offset}, 4096), buffer);
  EXPECT_EQ(segments_.resolve({location->segment, location->offset}, std::size_t{1} << 40), nullptr);
  EXPECT_EQ(segments_.resolve({location->segment + 1, 0}, 1), nullptr);
  heap.deallocate(buffer);
}

TEST_F(PeerSegmentsTest, DoesNotTakeAProcessOfTheSameNumberForItself) {
  SharedHeap& heap = SharedHeap::of_process();
  void* const buffer = heap.allocate(4096);
  segments_.consider(offer_of_a_namesake());
  EXPECT_EQ(peek(confirmed_), 0u);
  EXPECT_EQ(segments_.resolve({1, 4096}, 1), nullptr);
  heap.deallocate(buffer);
}

TEST_F(PeerSegmentsTest, OpensNothingThatIsNoMemory) {
  // A pipe with a name and no writer: whoever opens it for reading waits.
  const std::string path = testing::TempDir() + "tutti-pipe-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const UniqueFd pipe(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ::unlink(path.c_str());
  ASSERT_TRUE(pipe);
  Offer offer = offer_of_a_namesake();
  offer.segment = 2;
  offer.descriptor = pipe.get();
  offer.bytes = 0;
  segments_.consider(offer);
  EXPECT_EQ(peek(confirmed_), 0u);
}

TEST_F(PeerSegmentsTest, MapsOnlySealedMemoryThatHoldsTheNonce) {
  const Segment segment = Segment::create(8192);
  Offer offer = offer_of_a_namesake();
  offer.segment = 3;
  offer.descriptor = segment.descriptor();
  offer.bytes = segment.size();
  segments_.consider(offer);
  EXPECT_EQ(peek(confirmed_), 0u) << "another nonce";
  offer.segment = 4;
  *reinterpret_cast<std::uint64_t*>(segment.data()) = offer.nonce;
  segments_.consider(offer);
  EXPECT_EQ(peek(confirmed_), std::uint64_t{1} << 4);
  EXPECT_NE(segments_.resolve({4, 8191}, 1), nullptr);
  EXPECT_EQ(segments_.resolve({4, 8191}, 2), nullptr) << "past its end";
  EXPECT_EQ(segments_.resolve({4, ~std::uint64_t{0}}, 2), nullptr);
}

}  // namespace
}  // namespace tutti
