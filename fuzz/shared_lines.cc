// Messages in memory that a rank shares with another, whose memory is damaged: lines and output notices with any
// descriptor, place, offer, credit and payload, which a second thread may change while they are looked at. No call
// reads or writes where it may not, and one that fails names that rank. What is shared lies here in pieces of exactly
// their size, so that the address sanitizer sees every step past them.
#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/health.h"
#include "collectives/registry.h"
#include "executor/host_executor.h"
#include "executor/point_to_point.h"
#include "executor/signature.h"
#include "fuzz/input.h"
#include "fuzz/target.h"
#include "schedule/placement.h"
#include "transport/messages.h"
#include "transport/shm/peer_segments.h"

namespace tutti::fuzz {
namespace {

constexpr int kRanks = 2;
constexpr int kPeer = 1;
constexpr std::uint32_t kWindow = 4;
constexpr std::size_t kRingBytes = 4096;
constexpr std::size_t kSlotBytes = 3 * kRingBytes + kWindow * kEarlyBytes;  // two rings, pieces, early messages
constexpr std::size_t kPieceBytes = kRingBytes / kWindow;
constexpr int kTurns = 24;
constexpr std::size_t kOutputBytes = 1 << 16;  // where the peer may say that its output lies

// The connection with the damaged peer, and what it can write.
struct Shared {
  std::unique_ptr<Line[]> out = std::make_unique<Line[]>(kWindow);
  std::unique_ptr<Line[]> in = std::make_unique<Line[]>(kWindow);
  Word credit_out{0};
  Word credit_in{0};
  Word progress_in{0};
  Word confirmed_in{0};
  std::unique_ptr<Line> notice = std::make_unique<Line>();
  std::unique_ptr<std::byte[]> in_slots = std::make_unique<std::byte[]>(kSlotBytes);

  void connect(Endpoint& endpoint) {
    endpoint.out = out.get();
    endpoint.in = in.get();
    endpoint.in_slots = in_slots.get();
    endpoint.in_slots_bytes = kSlotBytes;
    endpoint.credit_out = &credit_out;
    endpoint.credit_in = &credit_in;
    endpoint.progress_in = &progress_in;
    endpoint.confirmed_in = &confirmed_in;
    endpoint.notice_in = notice.get();
    endpoint.window = kWindow;
  }

  // The peer publishes a message, or what it takes for one.
  void write(Input& input, const Endpoint& endpoint, std::uint64_t number, std::uint64_t signature, std::size_t bytes) {
    Line& line = in[line_index(endpoint, number)];
    const unsigned honest = input.byte();
    Descriptor descriptor{static_cast<Way>(input.below(4)), 0, static_cast<std::uint32_t>(bytes)};
    if ((honest & 1) != 0) descriptor.length = input.integer<std::uint32_t>();
    if ((honest & 2) != 0) descriptor.slot = input.integer<std::uint32_t>() & 0x3FFFFFFF;
    line.descriptor = descriptor.pack();
    line.signature = (honest & 4) != 0 ? input.integer<std::uint64_t>() : signature;
    line.credit = (honest & 8) != 0 ? input.integer<std::uint64_t>() : endpoint.sent;
    const auto payload = input.take((honest & 16) != 0 ? Line::kPayload : 0);
    if (!payload.empty()) std::memcpy(line.payload, payload.data(), payload.size());
    // What decides about waiting, seldom damaged.
    if ((honest & 96) == 96) note(credit_in, input.integer<std::uint64_t>());
    if ((honest & 224) == 224) note(progress_in, input.integer<std::uint64_t>());
    if ((honest & 160) == 160) note(confirmed_in, input.integer<std::uint64_t>());
    publish(line.epoch, number);  // observed by arrived()
  }

  // The peer says where its output for call 1 lies, or what it takes for that. The memory is this process's own.
  void announce(Input& input, std::uint64_t signature) {
    const unsigned honest = input.byte();
    const auto honest_end =
        static_cast<std::uint32_t>((heap_place().offset + kOutputBytes + Notes::kEndUnit - 1) / Notes::kEndUnit);
    Notes notes;
    notes.output_segment = (honest & 1) != 0 ? input.byte() : static_cast<std::uint8_t>(heap_place().segment);
    notes.output_offset = (honest & 2) != 0 ? input.integer<std::uint64_t>() : heap_place().offset;
    notes.output_end = (honest & 4) != 0 ? input.integer<std::uint32_t>() : honest_end;
    notes.output_missing = (honest & 8) != 0 ? input.integer<std::uint16_t>() : 0;
    notes.flags = (honest & 16) != 0 ? input.byte() : Notes::kOffers;
    std::memcpy(notice->payload, &notes, sizeof(notes));
    Offer offer = SharedHeap::of_process().offer(heap_place().segment);
    if ((honest & 32) != 0) offer.bytes = input.integer<std::uint64_t>();
    if ((honest & 64) != 0) offer.nonce = input.integer<std::uint64_t>();
    std::memcpy(notice->payload + sizeof(notes), &offer, sizeof(offer));
    notice->signature = (honest & 128) != 0 ? input.integer<std::uint64_t>() : signature;
    publish(notice->epoch, 1);  // observed by heard_of_output()
  }

  // Some memory of the process's heap, as long as any output.
  static const SharedHeap::Location& heap_place() {
    static const SharedHeap::Location place = [] {
      SharedHeap& heap = SharedHeap::of_process();
      return *heap.find(static_cast<const std::byte*>(heap.allocate(kOutputBytes)), kOutputBytes);
    }();
    return place;
  }
};

// Changes words of what the peer can write, and changes them back, over and over, for as long as it lives. What it does
// follows from the input; when it does it, does not.
class Changing {
 public:
  Changing(Input& input, Shared& shared) {
    if (input.below(8) != 1) return;
    for (Change& change : changes_) {
      const unsigned which = input.byte();
      Line& line = (which & 128) != 0 ? *shared.notice : shared.in[which / 16 % kWindow];
      change.word = reinterpret_cast<std::uint64_t*>(&line) + (which & 7);  // payload: notes
      change.bits = input.integer<std::uint64_t>();
    }
    thread_ = std::thread([this] {
      while (peek(over_) == 0) {
        for (const bool back : {false, true}) {
          for (const Change& change : changes_) __atomic_fetch_xor(change.word, change.bits, __ATOMIC_RELAXED);
          for (int turn = 0; turn < (back ? 40 : 10); ++turn) relax_cpu();
        }
      }
    });
  }
  ~Changing() {
    note(over_, 1);
    if (thread_.joinable()) thread_.join();
  }
  bool runs() const { return thread_.joinable(); }

 private:
  struct Change {
    std::uint64_t* word;
    std::uint64_t bits;
  };
  std::array<Change, 3> changes_{};
  Word over_{0};
  std::thread thread_;
};

void check(const Health& health) {
  if (!health.failed()) return;
  require(health.reason().peer() == kPeer, "a failure names the rank whose memory is damaged");
}

const Placement& placement() {
  static const Placement made(kRanks);
  return made;
}

struct Row {
  Collective collective;
  const char* algorithm;
};
constexpr Row kRows[] = {
    {Collective::kAllReduce, "one_shot"}, {Collective::kAllReduce, "two_shot"},
    {Collective::kAllReduce, "ring"},     {Collective::kAllReduce, "recursive_doubling"},
    {Collective::kAllGather, "ring"},     {Collective::kReduceScatter, "ring"},
    {Collective::kBroadcast, "binomial"}, {Collective::kReduce, "binomial"},
    {Collective::kAllToAll, "pairwise"},  {Collective::kBroadcast, "shared_copy"},
};

const Plan* plan_of(std::size_t row) {
  static std::unique_ptr<Plan> plans[std::size(kRows)];
  if (plans[row] == nullptr) {
    const Algorithm* algorithm = find_algorithm(kRows[row].collective, kRows[row].algorithm);
    if (algorithm == nullptr) return nullptr;
    plans[row] = std::make_unique<Plan>(*algorithm, placement().layout(0));
  }
  return plans[row].get();
}

void collective(Input& input) {
  const std::size_t row = input.below(std::size(kRows));
  const Plan* plan = plan_of(row);
  if (plan == nullptr) return;
  constexpr std::size_t kCounts[] = {1, 2, 24, 25, 64, 200};
  const std::size_t count = kCounts[input.below(std::size(kCounts))];
  const std::size_t chunk_bytes = input.below(2) == 0 ? 1024 : 256;
  Shared shared;
  Health health(kRanks);
  PeerSegments segments(shared.confirmed_in);
  auto slots = std::make_unique<std::byte[]>(kSlotBytes);
  std::vector<std::unique_ptr<Channel>> channels;
  channels.push_back(std::make_unique<Channel>(placement().layout(0), 0, slots.get(), SlotRing(0, kRingBytes, 0),
                                               SlotRing(kRingBytes, kRingBytes, 1)));
  Endpoint& endpoint = channels[0]->endpoint(kPeer);
  shared.connect(endpoint);
  endpoint.segments = &segments;
  Word progress{0};
  HostExecutor executor(ExecutorParts{channels, {}, health, progress});
  // Of exactly the sizes that the call's contract says, or as long as the longer one where it is simpler.
  const std::size_t all = count * kRanks;
  const auto in = std::make_unique<float[]>(all);
  const auto out = std::make_unique<float[]>(all);
  Call call;
  call.plan = plan;
  call.reduction = {DataType::kF32, kSum, kRanks, false, false};
  call.input = reinterpret_cast<const std::byte*>(in.get());
  call.output = reinterpret_cast<std::byte*>(out.get());
  call.element_bytes = sizeof(float);
  call.sequence = 1;
  call.root = static_cast<int>(input.below(kRanks));
  call.signature = 0x5157;
  // The root of a shared copy in place writes where the peer's notice says.
  call.in_place = input.below(2) == 1 && kRows[row].collective == Collective::kBroadcast;
  if (call.in_place) call.input = call.output;
  executor.read_in_place_from(Line::kPayload + 1);
  executor.start(call, count, chunk_bytes);
  if (input.below(2) == 1) shared.announce(input, call.signature);
  const Changing changing(input, shared);
  std::uint64_t number = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const Progress result = executor.progress(call);
    check(health);
    if (result == Progress::kFailed) {
      require(health.failed() || executor.mismatch().peer == kPeer, "a call fails for a reason");
      return;
    }
    if (result == Progress::kDone || input.ended()) return;
    if (number - endpoint.received < kWindow) {
      const std::size_t bytes = std::min(chunk_bytes, call.binding.elements(0, 0) * sizeof(float));
      shared.write(input, endpoint, ++number, call.signature, bytes);
    }
  }
}

void point_to_point(Input& input) {
  Shared shared[PointToPoint::kConnections];
  Shared own[PointToPoint::kConnections];  // with this rank itself: a receive from any source looks there too
  Health health(kRanks);
  auto slots = std::make_unique<std::byte[]>(kSlotBytes);
  Endpoint* endpoints[PointToPoint::kConnections] = {};
  PointToPoint::Wiring wiring;
  wiring.slots = slots.get();
  wiring.piece_bytes = kPieceBytes;
  wiring.pieces = [](int) { return 2 * kRingBytes; };
  wiring.reserve = [](std::size_t, std::size_t) {};
  wiring.connect = [&](PointToPoint::Connection connection, Endpoint& endpoint) {
    const int which = static_cast<int>(connection);
    if (endpoint.peer != kPeer) return own[which].connect(endpoint);
    shared[which].connect(endpoint);
    endpoints[which] = &endpoint;
  };
  PointToPoint transfers(kRanks, health, std::move(wiring));
  constexpr std::size_t kCounts[] = {1, 24, 25, 300, 3000};
  const std::size_t count = kCounts[input.below(std::size(kCounts))];
  const auto buffer = std::make_unique<float[]>(count);
  Transfer transfer;
  transfer.type = DataType::kF32;
  transfer.count = count;
  const bool sending = input.below(2) == 0;
  transfer.peer = sending || input.below(2) == 0 ? kPeer : kAnySource;
  transfer.probes = !sending && input.below(4) == 1;
  if (sending) {
    transfer.input = reinterpret_cast<const std::byte*>(buffer.get());
  } else {
    transfer.output = reinterpret_cast<std::byte*>(buffer.get());
  }
  const Changing changing(input, shared[input.below(PointToPoint::kConnections)]);
  std::uint64_t numbers[PointToPoint::kConnections] = {};
  for (int turn = 0; turn < kTurns; ++turn) {
    const Progress result = sending ? transfers.progress_send(transfer) : transfers.progress_receive(transfer);
    check(health);
    if (result == Progress::kFailed) {
      if (!health.failed()) {
        const auto mismatch = transfers.mismatch(transfer.peer);
        require(mismatch && name(mismatch->type) != nullptr, "a mismatch says what was announced");
      }
      transfers.withdraw(transfer);
      return;
    }
    if (result == Progress::kDone || input.ended()) break;
    const unsigned which = input.below(PointToPoint::kConnections);
    if (endpoints[which] == nullptr || numbers[which] - endpoints[which]->received >= kWindow) continue;
    const std::size_t bytes = which == 2 ? std::min(count * sizeof(float), kPieceBytes) : 24;
    shared[which].write(input, *endpoints[which], ++numbers[which], 1, bytes);
  }
  transfers.withdraw(transfer);
}

}  // namespace

void run(std::span<const std::byte> bytes) {
  Input input(bytes);
  if (input.below(3) == 0) {
    point_to_point(input);
  } else {
    collective(input);
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (unsigned row = 0; row < std::size(kRows); ++row) {
    for (unsigned count = 0; count < 6; ++count) {
      // In place with a notice, or neither; nothing changes meanwhile.
      const auto writes = static_cast<std::byte>(count % 2);
      Bytes seed = {
          std::byte{1}, static_cast<std::byte>(row), static_cast<std::byte>(count), std::byte{0}, std::byte{0}, writes,
          writes};
      if (writes == std::byte{1}) seed.push_back(std::byte{0});
      seed.push_back(std::byte{0});
      for (int message = 0; message < 8; ++message) {
        seed.push_back(std::byte{0});
        seed.push_back(static_cast<std::byte>(count < 3 ? Way::kInline : Way::kSlot));
      }
      all.push_back(seed);
    }
  }
  // A receive: an announcement, and its pieces.
  Bytes receive(10);
  receive[1] = receive[2] = std::byte{1};
  receive[8] = std::byte{16};
  const std::uint64_t announcement[] = {1, 24, static_cast<std::uint64_t>(DataType::kF32) << 32};
  const auto* const words = reinterpret_cast<const std::byte*>(announcement);
  receive.insert(receive.end(), words, words + sizeof announcement);
  receive.resize(receive.size() + Line::kPayload - sizeof announcement);
  for (const int byte : {2, 0, 0}) receive.push_back(static_cast<std::byte>(byte));
  all.push_back(receive);
  // A send: its grant.
  Bytes send = {std::byte{0}, std::byte{1},  std::byte{0}, std::byte{0}, std::byte{0},
                std::byte{1}, std::byte{16}, std::byte{0}, std::byte{1}};
  send.resize(send.size() + Line::kPayload - 1);
  all.push_back(send);
  return all;
}

}  // namespace tutti::fuzz
