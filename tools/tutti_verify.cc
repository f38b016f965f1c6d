#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/registry.h"
#include "command.h"
#include "schedule/sequences.h"
#include "schedule/verifier.h"
#include "tutti/error.h"
#include "validators.h"

namespace tutti {
namespace {

constexpr int kMostRanks = 16384;

struct Request {
  long first_ranks = 1;
  long last_ranks = 64;
  std::string algorithm;   // empty: all
  std::string collective;  // empty: all
  int hosts = 0;           // 0: several placements
  bool verbose = false;
};

// One algorithm on one number of ranks.
struct Task {
  const Algorithm* algorithm;
  int ranks;
};

// What the checks of one algorithm add up to.
struct Row {
  int least_ranks = 0;
  int most_ranks = 0;
  int checks = 0;
  int steps = 0;
  std::size_t claimed_reads = 0;
  std::size_t claimable_reads = 0;
  std::string claimable_example;
  int example_ranks = 0;
  std::string counterexample;
  int counterexample_ranks = 0;

  void add(int ranks, const Verdict& verdict, const std::string& context) {
    least_ranks = checks == 0 ? ranks : std::min(least_ranks, ranks);
    most_ranks = std::max(most_ranks, ranks);
    ++checks;
    steps = std::max(steps, verdict.steps);
    claimed_reads += verdict.claimed_reads;
    claimable_reads += verdict.claimable_reads;
    if (!verdict.claimable_example.empty() && (example_ranks == 0 || ranks < example_ranks)) {
      claimable_example = context + verdict.claimable_example;
      example_ranks = ranks;
    }
    if (verdict.right || (!counterexample.empty() && counterexample_ranks <= ranks)) return;
    counterexample = context + verdict.counterexample;
    counterexample_ranks = ranks;
  }
};

// Hosts of one, two, three … ranks, in no order: rail peers are missing and do not ascend.
std::vector<int> uneven_parts(int ranks) {
  std::vector<int> part_of;
  for (int rank = 0; rank < ranks; ++rank) part_of.push_back(rank * rank / 2 % 3);
  return part_of;
}
Placement uneven_placement(int ranks) { return Placement(uneven_parts(ranks)); }
Placement uneven_groups(int ranks) {
  return {std::vector<int>(static_cast<std::size_t>(ranks), 0), uneven_parts(ranks)};
}

std::vector<Placement> placements(int ranks, int hosts) {
  constexpr int kEvenHosts = 4;
  std::vector<Placement> result;
  if (hosts > 0) {
    if (hosts <= ranks) result.push_back(even_placement(ranks, hosts));
    return result;
  }
  for (int even = 1; even <= std::min(ranks, kEvenHosts); ++even) result.push_back(even_placement(ranks, even));
  if (ranks > 2) result.push_back(uneven_placement(ranks));
  // One host in groups.
  for (int even = 2; even <= std::min(ranks, kEvenHosts); even *= 2) result.push_back(grouped_placement(ranks, even));
  if (ranks > 2) result.push_back(uneven_groups(ranks));
  return result;
}

std::vector<int> roots(const Algorithm& algorithm, int ranks) {
  if (!is_rooted(algorithm.collective) || ranks == 1) return {0};
  if (ranks == 2) return {0, 1};
  return {0, 1, ranks - 1};
}

std::string context(const Algorithm& algorithm, const Placement& placement, int root) {
  std::string text = std::to_string(placement.ranks()) + " ranks";
  if (placement.hosts() > 1) {
    text += " on hosts";
    for (int rank = 0; rank < std::min(placement.ranks(), 16); ++rank) {
      text += " " + std::to_string(host_of(placement.layout(rank), rank));
    }
    if (placement.ranks() > 16) text += " …";
  }
  if (placement.groups() > 1) {
    text += " in groups";
    for (int rank = 0; rank < std::min(placement.ranks(), 16); ++rank) {
      text += " " + std::to_string(placement.layout(rank).group_of[rank]);
    }
    if (placement.ranks() > 16) text += " …";
  }
  if (is_rooted(algorithm.collective)) text += ", root " + std::to_string(root);
  return text + ": ";
}

class Verification {
 public:
  explicit Verification(const Request& request) : request_(request) {
    for (const Algorithm& algorithm : algorithms()) {
      if (!request.algorithm.empty() && algorithm.name != request.algorithm) continue;
      if (!request.collective.empty() && name(algorithm.collective) != request.collective) continue;
      chosen_.push_back(&algorithm);
    }
    rows_.resize(chosen_.size());
  }

  const std::vector<const Algorithm*>& chosen() const { return chosen_; }
  const std::vector<Row>& rows() const { return rows_; }

  void run() {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      threads.emplace_back([this] { work(); });
    }
  }

 private:
  // Largest first, so that no thread is left with them at the end.
  void work() {
    const long sizes = request_.last_ranks - request_.first_ranks + 1;
    for (long task; (task = next_++) < sizes * static_cast<long>(chosen_.size());) {
      const long ranks = request_.last_ranks - task / static_cast<long>(chosen_.size());
      check(static_cast<std::size_t>(task) % chosen_.size(), static_cast<int>(ranks));
    }
  }

  void check(std::size_t row, int ranks) {
    const Algorithm& algorithm = *chosen_[row];
    for (const Placement& placement : placements(ranks, request_.hosts)) {
      if (!algorithm.applies(placement.layout(0))) continue;
      for (const int root : roots(algorithm, ranks)) {
        const Verdict verdict = verify(algorithm, placement, root);
        const std::lock_guard lock(mutex_);
        rows_[row].add(ranks, verdict, context(algorithm, placement, root));
      }
    }
  }

  Request request_;
  std::vector<const Algorithm*> chosen_;
  std::atomic<long> next_ = 0;
  std::mutex mutex_;
  std::vector<Row> rows_;
};

// Three collectives back to back. Returns the first counterexample.
std::string check_sequences(int* checked) {
  constexpr int kMostSequenceRanks = 8;
  constexpr int kSequences = 100;
  for (int ranks = 2; ranks <= kMostSequenceRanks; ++ranks) {
    for (const int hosts : {1, 2}) {
      const std::string found =
          verify_random_sequences(algorithms(), even_placement(ranks, hosts), kSequences, static_cast<unsigned>(ranks));
      *checked += kSequences;
      if (!found.empty())
        return std::to_string(ranks) + (ranks == 1 ? " rank on " : " ranks on ") + std::to_string(hosts) +
               (hosts == 1 ? " host: " : " hosts: ") + found;
    }
  }
  return {};
}

void print(const Verification& verification, bool verbose) {
  std::printf("%-17s %-22s %-9s %7s %7s", "collective", "algorithm", "ranks", "checks", "steps");
  if (verbose) std::printf(" %12s %12s", "read claims", "more legal");
  std::printf("  verdict\n");
  for (std::size_t i = 0; i < verification.rows().size(); ++i) {
    const Algorithm& algorithm = *verification.chosen()[i];
    const Row& row = verification.rows()[i];
    const std::string ranks =
        row.checks == 0 ? "-" : std::to_string(row.least_ranks) + ".." + std::to_string(row.most_ranks);
    std::printf("%-17s %-22.*s %-9s %7d %7d", name(algorithm.collective), static_cast<int>(algorithm.name.size()),
                algorithm.name.data(), ranks.c_str(), row.checks, row.steps);
    if (verbose) std::printf(" %12zu %12zu", row.claimed_reads, row.claimable_reads);
    const char* right = algorithm.reproducible ? "right, reproducible" : "right";
    std::printf("  %s\n", row.checks == 0 ? "applies nowhere here" : row.counterexample.empty() ? right : "WRONG");
    if (verbose && row.claimable_reads > 0) {
      std::printf("    could also be read in place: %s\n", row.claimable_example.c_str());
    }
    if (!row.counterexample.empty()) std::printf("    %s\n", row.counterexample.c_str());
  }
}

int run(const Request& request) {
  const auto begin = std::chrono::steady_clock::now();
  Verification verification(request);
  if (verification.chosen().empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "there is no such algorithm; `tutti verify` without --algorithm and "
                "--collective lists all of them");
  }
  verification.run();
  print(verification, request.verbose);
  bool right = std::all_of(verification.rows().begin(), verification.rows().end(),
                           [](const Row& row) { return row.counterexample.empty(); });

  if (request.algorithm.empty() && request.collective.empty() && right) {
    int checked = 0;
    const std::string found = check_sequences(&checked);
    std::printf("%d sequences of three collectives back to back: %s\n", checked, found.empty() ? "right" : "WRONG");
    if (!found.empty()) std::printf("    %s\n", found.c_str());
    right = found.empty();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  int checks = 0;
  for (const Row& row : verification.rows()) checks += row.checks;
  std::printf("%d schedules verified in %.1f s: %s\n", checks, seconds.count(),
              right ? "all right" : "something is WRONG, see above");
  return right ? 0 : 1;
}

std::function<int()> declare(CLI::App& command) {
  struct Words {
    Request request;
    std::string ranks;
  };
  const auto words = std::make_shared<Words>();
  Request& request = words->request;
  command.add_option("--ranks", words->ranks, "numbers of ranks (1..64)")->check(range_in(1, kMostRanks));
  command.add_option("--algorithm", request.algorithm, "only those of this name");
  command.add_option("--collective", request.collective, "only those of this collective")->check(collective_name());
  command.add_option("--hosts", request.hosts, "ranks on so many hosts (several placements)")
      ->check(whole_number_in(1, kMostRanks));
  command.add_flag("-v,--verbose", request.verbose, "counts the sends that are read in place");
  return [words] {
    if (!words->ranks.empty()) {
      const NumberRange ranks = number_range(words->ranks);
      words->request.first_ranks = ranks.first;
      words->request.last_ranks = ranks.last;
    }
    return run(words->request);
  };
}

}  // namespace

constexpr Command kVerifyCommand = {"verify", "Proves every schedule, or those that are named", declare};

}  // namespace tutti
