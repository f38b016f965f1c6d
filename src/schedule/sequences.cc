#include "schedule/sequences.h"

#include <array>
#include <vector>

#include "schedule/value.h"
#include "schedule/verifier.h"

namespace tutti {
namespace {

constexpr int kCalls = 3;

std::string describe_calls(std::span<const SymbolicCall> calls) {
  std::string text;
  for (const SymbolicCall& call : calls) {
    if (!text.empty()) text += ", then ";
    text += std::string(call.algorithm->name) + " " + name(call.algorithm->collective);
    if (is_rooted(call.algorithm->collective)) text += " with root " + std::to_string(call.root);
    if (call.in_place) text += " in place";
  }
  return text;
}

}  // namespace

std::string verify_random_sequences(std::span<const Algorithm> algorithms, const Placement& placement, int count,
                                    std::uint64_t seed) {
  std::vector<const Algorithm*> usable;
  for (const Algorithm& algorithm : algorithms) {
    if (algorithm.applies(placement.layout(0))) usable.push_back(&algorithm);
  }
  if (usable.empty()) return {};
  std::uint64_t state = seed;
  const auto draw = [&state](std::size_t below) { return static_cast<std::size_t>((state = mix(state)) % below); };
  for (int i = 0; i < count; ++i) {
    std::array<SymbolicCall, kCalls> calls;
    for (SymbolicCall& call : calls) {
      call.algorithm = usable[draw(usable.size())];
      if (is_rooted(call.algorithm->collective)) {
        call.root = static_cast<int>(draw(static_cast<std::size_t>(placement.ranks())));
      }
      call.in_place = draw(2) == 1;
    }
    const Verdict verdict = verify_sequence(calls, placement);
    if (!verdict.right) return describe_calls(calls) + ": " + verdict.counterexample;
  }
  return {};
}

}  // namespace tutti
