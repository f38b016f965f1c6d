// Ranks at work are killed, stopped or end by themselves at random moments; see soak_trial.h. TUTTI_TEST_TRIALS says
// how many there are altogether, TUTTI_TEST_SEED repeats them, TUTTI_TEST_TRIAL repeats the one with this seed. Each
// leaves a line in TUTTI_TEST_RESULTS for scripts/soak_summary.py.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>

#include "process/soak_trial.h"

namespace tutti {
namespace {

constexpr int kBatches = 12;

std::optional<std::uint64_t> number(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::optional(std::strtoull(text, nullptr, 10)) : std::nullopt;
}

class Soak : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const auto reason = Namespace::refusal()) GTEST_SKIP() << *reason;
    if (place_ == nullptr) place_ = std::make_unique<SoakPlace>();
  }
  static void TearDownTestSuite() { place_.reset(); }

  static void try_one(const Trial& trial) {
    const Outcome outcome = place_->run(trial);
    std::printf("%s: told after %lld ms %s\n", trial.text().c_str(), outcome.told_ms, outcome.problem.c_str());
    EXPECT_EQ(outcome.problem, "") << trial.text() << "\nrepeat it with TUTTI_TEST_TRIAL=" << trial.seed << "\n"
                                   << outcome.transcript;
    if (const char* results = std::getenv("TUTTI_TEST_RESULTS")) {
      std::string problem = outcome.problem;  // on one line
      std::ranges::replace(problem, '\n', ' ');
      std::ofstream(std::string(results) + "/trials-" + std::to_string(::getpid()) + ".tsv", std::ios::app)
          << trial.seed << '\t' << trial.fault_name() << '\t' << trial.way_name() << '\t' << trial.moment_name() << '\t'
          << outcome.told_ms << '\t' << problem << '\n';
    }
  }

  static std::unique_ptr<SoakPlace> place_;
};
std::unique_ptr<SoakPlace> Soak::place_;

TEST_P(Soak, EverySurvivorIsToldWhoIsGoneAndNothingIsLeft) {
  if (const auto seed = number("TUTTI_TEST_TRIAL")) {
    if (GetParam() == 0) try_one(Trial::of_seed(*seed));
    return;
  }
  static const std::uint64_t seed = number("TUTTI_TEST_SEED").value_or(std::random_device{}());
  std::printf("TUTTI_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const auto trials = static_cast<int>(number("TUTTI_TEST_TRIALS").value_or(60));
  for (int i = GetParam(); i < trials; i += kBatches)
    try_one(Trial::of_seed(seed * 100'000 + static_cast<unsigned>(i)));
}

INSTANTIATE_TEST_SUITE_P(Batches, Soak, testing::Range(0, kBatches));

}  // namespace
}  // namespace tutti
