#include "transport/shm/link_probe.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/clock.h"
#include "base/sync.h"

namespace tutti {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr microseconds kPatience(1000);     // until all are there
constexpr microseconds kBudget(2000);       // for all rounds
constexpr microseconds kShortestTurn(30);   // of one pair
constexpr microseconds kLongestTurn(200);   //
constexpr microseconds kRatePatience(600);  // of one pair
constexpr int kHopsPerBatch = 16;           // half of them there, half back
constexpr int kMostBatches = 12;
constexpr int kRateTurns = 3;
constexpr std::size_t kRateBytes = 16 * 1024;
constexpr std::uint64_t kOver = ~std::uint64_t{0};  // a player has left the table

double ns_since(Clock::time_point start) {
  return static_cast<double>(std::chrono::duration_cast<nanoseconds>(Clock::now() - start).count());
}

// The shorter of a time measured before and this one; 0 is no time.
double shorter(double before, double now) { return before == 0 ? now : std::min(before, now); }

// Where a member writes and its partner looks: one line each way.
struct Table {
  Word hop;
  Word rate;
};
static_assert(sizeof(Table) <= Line::kPayload);

class Game {
 public:
  explicit Game(const LinkProbeRequest& request) : request_(request) {}

  Table& table(std::uint32_t writer, std::uint32_t reader) const {
    const SegmentLayout& layout = *request_.layout;
    std::byte* const area = request_.segment + layout.area(request_.areas[writer]);
    Line* const lines = reinterpret_cast<Line*>(area + layout.lines(0, request_.areas[reader]));
    return *reinterpret_cast<Table*>(lines->payload);
  }

  // Waits until the partner's word is at least `value`. False: it has left, time is over, or all have failed.
  bool await(const Word& word, std::uint64_t value, Deadline deadline) const {
    for (int turn = 1;; ++turn) {
      const std::uint64_t seen = observe(word);  // published by the partner in the same game
      if (seen == kOver) return false;
      if (seen >= value) return true;
      if (turn % 16 == 0 && (Clock::now() >= deadline || request_.given_up())) return false;
      relax_cpu();
    }
  }

  // Says that this member is here, and waits for the others as long as there is patience.
  void gather() const {
    publish(table(request_.own, request_.own).hop, 1);  // observed by await() there
    const Deadline deadline = Clock::now() + kPatience;
    for (std::uint32_t member = 0; member < request_.areas.size(); ++member) {
      if (!await(table(member, member).hop, 1, deadline)) return;
    }
  }

  // The lower member serves and has the clock. Returns the time of one hop, or 0.
  double play_hops(std::uint32_t partner, microseconds turn) const {
    Word& mine = table(request_.own, partner).hop;
    const Word& theirs = table(partner, request_.own).hop;
    const bool serves = request_.own < partner;
    publish(mine, 1);                                             // observed by await() there
    const bool came = await(theirs, 1, Clock::now() + 2 * turn);  // it may have played longer before
    const double hop = !came ? 0 : serves ? serve(mine, theirs, turn) : (answer(mine, theirs, turn), 0);
    publish(mine, kOver);  // observed by await() there
    return hop;
  }

  // Rates between two members, as far as this one measures them.
  ProbedLink play_rates(std::uint32_t lower, std::uint32_t higher) const {
    const bool reads = request_.own == lower;
    const std::uint32_t partner = reads ? higher : lower;
    Word& mine = table(request_.own, partner).rate;
    const Word& theirs = table(partner, request_.own).rate;
    std::byte* const slots = ring(higher);
    const Deadline deadline = Clock::now() + kRatePatience;
    double read = 0, store = 0, stream = 0;
    std::uint64_t step = 0;
    const auto done = [&] { publish(mine, ++step); };  // observed by await() there
    const auto wait = [&](std::uint64_t least) { return await(theirs, least, deadline); };
    for (int turn = 0; turn < kRateTurns; ++turn) {
      if (reads) {
        if (!wait(step + 1)) break;
        read = shorter(read, timed([&] { read_all(slots); }));
        done();
        if (!wait(step + 1)) break;
        read_all(slots);
        done();
        if (!wait(step + 1)) break;
        done();
      } else {
        write_all(slots, turn);
        done();
        if (!wait(step)) break;
        store = shorter(store, timed([&] { write_all(slots, turn); }));
        done();
        if (!wait(step)) break;
        if (kCanStream) stream = shorter(stream, timed([&] { stream_all(slots); }));
        done();
        if (!wait(step)) break;
      }
    }
    publish(mine, kOver);  // observed by await() there
    const auto rate = [&](double ns) { return ns == 0 ? 0 : static_cast<double>(bytes()) / ns; };
    return {partner, 0, rate(read), rate(store), rate(stream)};
  }

  ProbedCore measure_core() const {
    ProbedCore core;
    Word& word = table(request_.own, request_.own).hop;
    for (int turn = 0; turn < kRateTurns; ++turn) {
      constexpr int kChanges = 64;
      const double ns = timed([&word] {
        for (int i = 0; i < kChanges; ++i) take_number(word);
      });
      core.line_ns = shorter(core.line_ns, ns / kChanges);
    }
    std::byte* const slots = ring(request_.own);
    const std::size_t half = bytes() / 2;
    double copy = 0;
    for (int turn = 0; turn < 2 * kRateTurns; ++turn) {
      copy = shorter(copy, timed([&] { std::memcpy(slots + half, slots, half); }));
    }
    core.copy_rate = static_cast<double>(half) / copy;
    return core;
  }

 private:
#if defined(__x86_64__)
  static constexpr bool kCanStream = true;
#else
  static constexpr bool kCanStream = false;
#endif

  double serve(Word& mine, const Word& theirs, microseconds turn) const {
    const Deadline deadline = Clock::now() + turn;
    double best = 0;
    std::uint64_t ball = 1;
    for (int batch = 0; batch < kMostBatches && Clock::now() < deadline; ++batch) {
      const auto start = Clock::now();
      for (int i = 0; i < kHopsPerBatch / 2; ++i) {
        publish(mine, ++ball);  // observed by answer() there
        if (!await(theirs, ball, deadline)) return best;
      }
      best = shorter(best, ns_since(start) / kHopsPerBatch);
    }
    return best;
  }

  void answer(Word& mine, const Word& theirs, microseconds turn) const {
    const Deadline deadline = Clock::now() + 2 * turn;
    for (std::uint64_t ball = 2; await(theirs, ball, deadline); ++ball) publish(mine, ball);  // observed by serve()
  }

  std::size_t bytes() const { return std::min<std::size_t>(kRateBytes, request_.layout->small_ring_bytes); }
  std::byte* ring(std::uint32_t member) const {
    return request_.segment + request_.layout->area(request_.areas[member]) + request_.layout->small_ring(0);
  }

  template <class F>
  double timed(F&& f) const {
    const auto start = Clock::now();
    f();
    take_number(table(request_.own, request_.own).hop);  // an atomic change comes after all stores before it
    return ns_since(start);
  }

  void read_all(const std::byte* slots) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < bytes(); i += sizeof(sum)) {
      std::uint64_t value;
      std::memcpy(&value, slots + i, sizeof(value));
      sum += value;
    }
    note(table(request_.own, request_.own).rate, sum);  // so that it is read at all
  }
  // Values that differ, or a compiler makes it a fill, which takes lines in another way than stores do.
  void write_all(std::byte* slots, int turn) const {
    for (std::size_t i = 0; i < bytes(); i += sizeof(i)) {
      const std::size_t value = i + static_cast<std::size_t>(turn);
      std::memcpy(slots + i, &value, sizeof(value));
    }
  }
  void stream_all([[maybe_unused]] std::byte* slots) const {
#if defined(__x86_64__)
    const __m128i value = _mm_set1_epi8(1);
    for (std::size_t i = 0; i < bytes(); i += sizeof(value)) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(slots + i), value);
    }
    _mm_sfence();
#endif
  }

  const LinkProbeRequest& request_;
};

}  // namespace

int probe_rounds(std::uint32_t members, int most) {
  if (members < 2) return 0;
  const auto all = static_cast<int>(members % 2 == 0 ? members - 1 : members);
  return std::min(all, most);
}

// Member n - 1 sits in the middle when their number is even, and the others turn around it.
std::uint32_t probe_partner(std::uint32_t members, int round, std::uint32_t member) {
  const std::uint32_t circle = members % 2 == 0 ? members - 1 : members;
  const auto turn = static_cast<std::uint32_t>(round) % circle;
  const std::uint32_t pauses = turn * ((circle + 1) / 2) % circle;  // 2·pauses = turn, modulo the circle
  if (member == circle) return pauses;
  if (member == pauses) return members % 2 == 0 ? circle : member;
  return (turn + circle - member) % circle;
}

LinkProbeResult probe_links(const LinkProbeRequest& request) {
  const Game game(request);
  const auto members = static_cast<std::uint32_t>(request.areas.size());
  LinkProbeResult result;
  const int rounds = probe_rounds(members, static_cast<int>(kBudget / kShortestTurn));
  const microseconds turn = std::clamp(kBudget / std::max(rounds, 1), kShortestTurn, kLongestTurn);
  game.gather();
  const Deadline end = Clock::now() + kBudget;
  for (int round = 0; round < rounds && Clock::now() < end; ++round) {
    const std::uint32_t partner = probe_partner(members, round, request.own);
    if (partner == request.own) continue;
    const double hop = game.play_hops(partner, turn);
    if (hop > 0) result.links.push_back({.member = partner, .hop_ns = hop});
  }
  result.core = game.measure_core();
  for (const auto& [lower, higher] : request.rated) {
    if (request.own != lower && request.own != higher) continue;
    const ProbedLink rates = game.play_rates(lower, higher);
    const auto known = std::ranges::find(result.links, rates.member, &ProbedLink::member);
    if (known == result.links.end()) {
      result.links.push_back(rates);
    } else {
      known->read_rate = rates.read_rate;
      known->store_rate = rates.store_rate;
      known->stream_rate = rates.stream_rate;
    }
  }
  return result;
}

}  // namespace tutti
