#include "support/fault_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace tutti {

FaultPlan FaultPlan::random(std::uint64_t seed, std::size_t bytes) {
  constexpr std::size_t kMostTurns = 300;  // that the bytes of one connection may take
  std::mt19937_64 random(seed);
  const auto one_of = [&random](auto... values) {
    const int all[] = {values...};
    return all[random() % std::size(all)];
  };
  FaultPlan plan;
  plan.seed = random();
  plan.longest_delay = one_of(0, 1, 5, 40);
  plan.most_bytes = static_cast<std::size_t>(one_of(0, 1, 3, 100, 5000));
  if (plan.most_bytes > 0) plan.most_bytes = std::max(plan.most_bytes, bytes / kMostTurns);
  plan.idle_percent = one_of(0, 0, 30, 80);
  plan.longest_credit_hold = one_of(0, 3, 50);
  plan.ignored_post_percent = one_of(0, 30, 100);
  plan.longest_written_late = one_of(0, 2, 20);
  plan.longest_notice = one_of(0, 5, 100);
  return plan;
}

std::string FaultPlan::text() const {
  static constexpr const char* kBreaks[] = {"nothing breaks", "goes silent", "is lost", "is killed"};
  return fmt::format(
      "plan: seed {}, delay {}, bytes {}, idle {} %, credit hold {}, posts ignored {} %, written late {}; victim {} "
      "({}) {} "
      "at {}, notice {}; bug {} at {}",
      seed, longest_delay, most_bytes, idle_percent, longest_credit_hold, ignored_post_percent, longest_written_late,
      victim, other, kBreaks[static_cast<int>(breaks)], breaks_at, longest_notice, static_cast<int>(bug), bug_at);
}

}  // namespace tutti
