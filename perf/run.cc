// The program that all perf binaries share.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "perf/collective.h"
#include "perf/job.h"
#include "perf/machine.h"
#include "perf/options.h"
#include "perf/report.h"
#include "perf/sweep.h"

namespace tutti::perf {
namespace {

constexpr int kExitUsage = 1;
constexpr int kExitWrong = 5;  // nccl-tests' number for wrong results and missed bandwidth

// What a rank tells the others about itself.
struct Card {
  std::int32_t pid;
  std::int32_t index;
  MemoryShare memory;
  char host[64];
};

std::vector<Card> exchange_cards(Rank& rank) {
  Card card{};
  card.pid = ::getpid();
  card.index = rank.index;
  card.memory = {machine_id(), available_memory()};
  const std::string host = host_name();
  std::memcpy(card.host, host.data(), std::min(host.size(), sizeof(card.host) - 1));
  return rank.meter.all(std::vector<Card>{card});
}

std::vector<RankInfo> infos(const std::vector<Card>& cards) {
  std::vector<RankInfo> infos;
  for (const Card& card : cards) infos.push_back({static_cast<int>(infos.size()), card.pid, card.index, card.host});
  return infos;
}

std::vector<MemoryShare> shares(const std::vector<Card>& cards) {
  std::vector<MemoryShare> shares;
  for (const Card& card : cards) shares.push_back(card.memory);
  return shares;
}

double min_bandwidth_from_environment() {
  const char* text = std::getenv("NCCL_TESTS_MIN_BW");
  return text == nullptr ? -1.0 : std::atof(text);
}

// Empty, or why these ranks cannot run this.
std::string objection(const Collective& collective, const Options& options, int ranks) {
  if (ranks < collective.min_ranks) {
    return fmt::format("{} needs at least {} ranks: start it with mpirun -n {}, or with -t {}", collective.title,
                       collective.min_ranks, collective.min_ranks, collective.min_ranks);
  }
  if (collective.rooted && options.root >= ranks) {
    return fmt::format("-r: there is no rank {}; the ranks are 0 to {}", options.root, ranks - 1);
  }
  if (options.max_bytes < options.min_bytes) {
    return fmt::format(
        "-b: the memory left on some host gives each rank at most {} B for a buffer; start fewer ranks there or begin "
        "smaller",
        options.max_bytes);
  }
  for (const DataType type : options.types) {
    for (const ReduceOp::Kind op : options.ops) {
      if (!collective.reduces || supports(op, type)) return "";
    }
  }
  return "-o: this operation has no meaning on floating-point numbers; choose an integer type with -d";
}

int run_rank(Rank& rank, const Collective& collective, Options options, const std::vector<std::string>& arguments) {
  const std::vector<Card> cards = exchange_cards(rank);
  const std::size_t wanted = options.max_bytes;
  options.max_bytes = std::min(wanted, largest_size(shares(cards)));
  rank.shares_clock = have_processors(shares(cards));
  const std::string problem = objection(collective, options, rank.ranks);
  if (!problem.empty()) {
    if (rank.rank == 0) fmt::print(stderr, "{}\n", problem);
    return kExitUsage;
  }
  const double min_bandwidth = min_bandwidth_from_environment();

  std::optional<Report> report;
  if (rank.rank == 0) {
    report.emplace(collective, options, arguments, min_bandwidth);
    report->starting(infos(cards), wanted);
  }
  const Totals totals = sweep(collective, options, rank, report ? &*report : nullptr);
  if (report) report->concluded(totals, 2 * options.max_bytes);

  const bool slow = min_bandwidth >= 0 && totals.average_bandwidth() < kMinBandwidthShare * min_bandwidth;
  return totals.wrong > 0 || slow ? kExitWrong : 0;
}

}  // namespace

int run(int argc, char** argv, const Collective& collective) {
  Options options;
  const int end = parse_options(argc, argv, options);
  if (end >= 0) return end;
  const std::vector<std::string> arguments(argv, argv + argc);
  Watchdog watchdog(options.timeout_s, options.threads);
  return run_ranks(options.threads, watchdog,
                   [&](Rank& rank) { return run_rank(rank, collective, options, arguments); });
}

}  // namespace tutti::perf
