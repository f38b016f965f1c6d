#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti {

// Hashes of expressions over the ranks' contributions: equal exactly when the same contributions are combined in the
// same order and rounded at the same places. Never 0.
std::uint64_t leaf_expression(int rank);
// One pass over the operands, rounded once; with `last` the output map is applied before rounding. One operand without
// `last` is itself.
std::uint64_t pass_expression(std::span<const std::uint64_t> operands, bool last);
// The reproducible tree over the operands, rounded at every node: with p the largest power of two <= n, r = n - p,
// operands (0,1) … (2r-2,2r-1) are combined first, then the p results in a perfect binary tree. Destroys `operands`.
std::uint64_t tree_expression(std::span<std::uint64_t> operands, bool last);
// What Algorithm::reproducible promises for every element.
std::uint64_t reproducible_expression(int ranks);

// Remembers what hashes stand for, to print them. Only filled while a counterexample is worked out.
class ExpressionText {
 public:
  void note_leaf(int rank);
  void note_pass(std::uint64_t hash, std::span<const std::uint64_t> operands, bool last);
  // As tree_expression.
  void note_tree(std::span<const std::uint64_t> operands, bool last);
  // "((0+1)+2)": ranks; the operands of one pass stand in one pair of brackets. Cut short beyond 200 characters.
  std::string text(std::uint64_t hash) const;

 private:
  struct Node {
    int rank = -1;
    bool last = false;
    std::vector<std::uint64_t> operands;
  };
  void append(std::uint64_t hash, std::string& text) const;

  std::unordered_map<std::uint64_t, Node> nodes_;
};

}  // namespace tutti
