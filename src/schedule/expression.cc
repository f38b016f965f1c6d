#include "schedule/expression.h"

#include "schedule/value.h"

namespace tutti {
namespace {

constexpr std::size_t kLongestText = 200;

std::uint64_t finish(std::uint64_t hash) { return mix(hash) | 1; }

// Combines operands as the reproducible tree does: combine(left, right, is_root) makes a node.
template <class Combine>
std::uint64_t fold_tree(std::span<std::uint64_t> operands, Combine combine) {
  std::size_t count = operands.size();
  std::size_t power = 1;
  while (power * 2 <= count) power *= 2;
  const std::size_t folded = count - power;
  for (std::size_t i = 0; i < folded; ++i) operands[i] = combine(operands[2 * i], operands[2 * i + 1], count == 2);
  for (std::size_t i = folded; i < power; ++i) operands[i] = operands[i + folded];
  for (count = power; count > 1; count /= 2) {
    for (std::size_t i = 0; i < count / 2; ++i) {
      operands[i] = combine(operands[2 * i], operands[2 * i + 1], count == 2);
    }
  }
  return operands[0];
}

std::uint64_t pair_expression(std::uint64_t left, std::uint64_t right, bool last) {
  const std::uint64_t operands[] = {left, right};
  return pass_expression(operands, last);
}

}  // namespace

std::uint64_t leaf_expression(int rank) { return finish(0x6C656166u + static_cast<std::uint64_t>(rank)); }

std::uint64_t pass_expression(std::span<const std::uint64_t> operands, bool last) {
  if (operands.size() == 1 && !last) return operands[0];
  std::uint64_t hash = operands.size() * 2 + (last ? 1 : 0);
  for (const std::uint64_t operand : operands) hash = mix(hash) ^ operand * 0xD6E8FEB86659FD93u;
  return finish(hash);
}

std::uint64_t tree_expression(std::span<std::uint64_t> operands, bool last) {
  if (operands.size() == 1) return pass_expression(operands, last);
  return fold_tree(operands, [last](std::uint64_t left, std::uint64_t right, bool is_root) {
    return pair_expression(left, right, is_root && last);
  });
}

std::uint64_t reproducible_expression(int ranks) {
  std::vector<std::uint64_t> operands;
  for (int rank = 0; rank < ranks; ++rank) operands.push_back(leaf_expression(rank));
  return tree_expression(operands, true);
}

void ExpressionText::note_leaf(int rank) { nodes_[leaf_expression(rank)].rank = rank; }

void ExpressionText::note_pass(std::uint64_t hash, std::span<const std::uint64_t> operands, bool last) {
  if (operands.size() == 1 && !last) return;
  nodes_[hash] = {-1, last, {operands.begin(), operands.end()}};
}

void ExpressionText::note_tree(std::span<const std::uint64_t> operands, bool last) {
  std::vector<std::uint64_t> copy(operands.begin(), operands.end());
  if (copy.size() == 1) return note_pass(pass_expression(copy, last), copy, last);
  fold_tree(copy, [this, last](std::uint64_t left, std::uint64_t right, bool is_root) {
    const std::uint64_t pair[] = {left, right};
    const std::uint64_t hash = pass_expression(pair, is_root && last);
    note_pass(hash, pair, is_root && last);
    return hash;
  });
}

std::string ExpressionText::text(std::uint64_t hash) const {
  std::string text;
  append(hash, text);
  if (text.size() > kLongestText) text = text.substr(0, kLongestText) + " …";
  return text;
}

void ExpressionText::append(std::uint64_t hash, std::string& text) const {
  if (text.size() > kLongestText) return;
  const auto found = nodes_.find(hash);
  if (found == nodes_.end()) {
    text += '?';
    return;
  }
  const Node& node = found->second;
  if (node.rank >= 0) {
    text += std::to_string(node.rank);
    return;
  }
  if (node.last) text += "last";
  char separator = '(';
  for (const std::uint64_t operand : node.operands) {
    text += separator;
    separator = '+';
    append(operand, text);
  }
  text += ')';
}

}  // namespace tutti
