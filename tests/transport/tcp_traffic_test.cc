// Random traffic between ranks as threads, checked byte by byte.

#include <random>
#include <thread>

#include "transport/tcp_support.h"

namespace tutti {
namespace {

constexpr int kRanks = 3;
constexpr int kChannels = 3;
constexpr int kMessages = 150;  // on every connection
constexpr std::uint32_t kLargest = 150000;

struct Plan {
  std::uint32_t length;
  Way way;
  bool posted;
};

// Both ends of a connection derive the same plan for a message.
Plan plan_of(std::uint64_t seed, int from, int to, int channel, std::uint64_t number) {
  std::mt19937_64 random(seed + number * 1000 + from * 100 + to * 10 + channel);
  const std::uint32_t sizes[] = {0, 1, 96, 97, 4096, 20000, static_cast<std::uint32_t>(random() % kLargest)};
  Plan plan{.length = sizes[random() % 7], .way = Way::kRead, .posted = random() % 3 == 0};
  if (random() % 2 == 0) plan.way = plan.length <= Line::kPayload ? Way::kInline : Way::kSlot;
  return plan;
}

std::uint64_t seed_of(int from, int to, int channel, std::uint64_t number) {
  return number * 1000 + from * 100 + to * 10 + channel;
}

// One thread's share of a rank: some channels, all peers.
class Worker {
 public:
  Worker(TcpRanks& ranks, int rank, std::vector<int> channels, std::uint64_t seed)
      : tcp_(*ranks[rank].tcp), health_(*ranks[rank].health), rank_(rank), seed_(seed) {
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      for (const int channel : channels) {
        flows_.emplace_back().endpoint = &ranks.endpoint(rank, peer, channel);
        flows_.back().slots.resize(4 * (kLargest + 64));
        flows_.back().endpoint->out_slots = flows_.back().slots.data();
      }
    }
  }

  void run() {
    std::mt19937_64 random(seed_ * 31 + rank_);
    for (bool all = false; !all && !health_.failed();) {
      all = true;
      for (Flow& flow : flows_) {
        if (random() % 4 != 0) step(flow);
        all = all && flow.endpoint->sent == kMessages && flow.endpoint->received == kMessages;
      }
      tcp_.progress();
      if (random() % 64 == 0) std::this_thread::yield();
    }
    while (!health_.failed() && !tcp_.flush()) {
    }
  }
  int wrong() const { return wrong_; }

 private:
  struct Flow {
    Endpoint* endpoint = nullptr;
    std::vector<std::byte> slots;
    std::vector<std::byte> own[4];  // read in place until acknowledged
    std::vector<std::byte> buffer;
    bool posted = false;
  };

  void step(Flow& flow) {
    Endpoint& endpoint = *flow.endpoint;
    const int peer = endpoint.peer;
    if (endpoint.sent < kMessages && can_publish(endpoint)) {
      const std::uint64_t number = endpoint.sent + 1;
      const Plan plan = plan_of(seed_, rank_, peer, endpoint.channel, number);
      auto& data = flow.own[number % 4];
      data = pattern(plan.length, seed_of(rank_, peer, endpoint.channel, number));
      Line& line = next_line(endpoint);
      Descriptor descriptor{.way = plan.way, .slot = 0, .length = plan.length};
      if (plan.way == Way::kSlot) {
        const std::size_t at = number % 4 * ((kLargest + 63) / 64 * 64);
        std::memcpy(flow.slots.data() + at, data.data(), data.size());
        descriptor.slot = static_cast<std::uint32_t>(at / 64);
      } else if (plan.way == Way::kRead) {
        const Place place{Place::kOwnMemory, reinterpret_cast<std::uint64_t>(data.data())};
        std::memcpy(line.payload, &place, sizeof place);
      } else if (!data.empty()) {
        std::memcpy(line.payload, data.data(), data.size());
      }
      publish_line(endpoint, descriptor, number, {});
    }
    if (endpoint.received == kMessages) return;
    const std::uint64_t number = endpoint.received + 1;
    const Plan plan = plan_of(seed_, peer, rank_, endpoint.channel, number);
    if (plan.posted && !flow.posted) {
      flow.buffer.assign(plan.length, std::byte{0});
      tcp_.post(endpoint, flow.buffer.data(), plan.length, number);
      flow.posted = true;
    }
    const Line* line = arrived(endpoint);
    if (line == nullptr) return;
    if (line->signature != number || payload_of(endpoint, *line, flow.buffer.data()) !=
                                         pattern(plan.length, seed_of(peer, rank_, endpoint.channel, number))) {
      ++wrong_;
    }
    flow.posted = false;
    take(endpoint, *line);
  }

  TcpTransport& tcp_;
  Health& health_;
  const int rank_;
  const std::uint64_t seed_;
  std::vector<Flow> flows_;
  int wrong_ = 0;
};

class TcpTraffic : public testing::TestWithParam<int> {};

TEST_P(TcpTraffic, ArrivesWholeAndInOrder) {
  const std::uint64_t seed = 20261129 + static_cast<std::uint64_t>(GetParam());
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  TcpLimits limits;
  limits.channels = kChannels;
  limits.max_message_bytes = kLargest;
  if (GetParam() == 1) {
    limits.socket_buffer_bytes = 1;
    // The system counts what lies unread in a socket pair as not delivered.
    limits.close_wait = std::chrono::milliseconds(0);
  }
  TcpRanks ranks(kRanks, limits, GetParam() == 1 ? TcpRanks::kSocketPairs : TcpRanks::kLoopback);
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    workers.push_back(std::make_unique<Worker>(ranks, r, std::vector{0, 1}, seed));
    workers.push_back(std::make_unique<Worker>(ranks, r, std::vector{2}, seed));
  }
  for (auto& worker : workers) threads.emplace_back([&worker] { worker->run(); });
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_FALSE(ranks[r].health->failed()) << ranks[r].health->reason().what();
  }
  for (const auto& worker : workers) EXPECT_EQ(worker->wrong(), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TcpTraffic, testing::Range(0, 3));

}  // namespace
}  // namespace tutti
