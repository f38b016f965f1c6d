#include "reduce/reference.h"

#include <cmath>
#include <cstddef>

#include "reduce/float_codes.h"

namespace tutti {
namespace {

using Kind = ReduceOp::Kind;

bool is_extreme(const Reduction& reduction) {
  return reduction.op.kind() == Kind::kMin || reduction.op.kind() == Kind::kMax;
}

// One value in the type that is computed with.
class Element {
 public:
  Element(const Reduction& reduction, std::uint64_t code) : reduction_(&reduction), code_(code) {
    if (is_floating(type())) value_ = decode(type(), code);
  }

  Element combined(const Element& right) const {
    if (is_extreme(*reduction_)) return extreme(right);
    if (is_floating(type()))
      return rounded_node(reduction_->op.kind() == Kind::kProd ? value_ * right.value_ : value_ + right.value_);
    switch (reduction_->op.kind()) {
      case Kind::kProd:
        return with_code(code_ * right.code_);
      case Kind::kBand:
        return with_code(code_ & right.code_);
      case Kind::kBor:
        return with_code(code_ | right.code_);
      case Kind::kBxor:
        return with_code(code_ ^ right.code_);
      default:
        return with_code(code_ + right.code_);
    }
  }

  Element multiplied(double scalar) const {
    if (!is_floating(type())) return with_code(code_ * static_cast<std::uint64_t>(static_cast<std::int64_t>(scalar)));
    const double factor = type() == DataType::kF64 ? scalar : static_cast<float>(scalar);
    return rounded(value_ * factor);
  }

  Element divided(int ranks) const {
    if (is_floating(type())) return with_value(value_ / ranks);
    if (is_signed()) return with_code(static_cast<std::uint64_t>(signed_code() / ranks));
    return with_code(code_ / static_cast<std::uint64_t>(ranks));
  }

  std::uint64_t code() const {
    return is_floating(type()) && !is_extreme(*reduction_) ? encode(type(), value_) : code_;
  }

 private:
  DataType type() const { return reduction_->type; }
  int bits() const { return static_cast<int>(8 * element_size(type())); }
  bool is_signed() const { return static_cast<int>(type()) % 2 == 0; }

  std::int64_t signed_code() const { return static_cast<std::int64_t>(code_ << (64 - bits())) >> (64 - bits()); }

  Element with_code(std::uint64_t code) const {
    Element result = *this;
    result.code_ = code << (64 - bits()) >> (64 - bits());
    return result;
  }

  // In f32 unless the type is f64.
  Element with_value(double value) const {
    Element result = *this;
    result.value_ = type() == DataType::kF64 ? value : static_cast<float>(value);
    return result;
  }

  Element rounded(double value) const {
    Element result = with_value(value);
    result.value_ = decode(type(), encode(type(), result.value_));
    return result;
  }

  Element rounded_node(double value) const {
    const bool rounds = reduction_->round_every_node && !needs_all_at_once(reduction_->op, type());
    return rounds ? rounded(value) : with_value(value);
  }

  bool before(const Element& other) const {
    if (!is_floating(type())) return is_signed() ? signed_code() < other.signed_code() : code_ < other.code_;
    if (value_ == other.value_) return std::signbit(value_) && !std::signbit(other.value_);
    return value_ < other.value_;
  }

  Element extreme(const Element& right) const {
    if (is_floating(type()) && (std::isnan(value_) || std::isnan(right.value_))) {
      return Element(*reduction_, canonical_nan(type()));
    }
    return (reduction_->op.kind() == Kind::kMin) == before(right) ? *this : right;
  }

  const Reduction* reduction_;
  std::uint64_t code_;
  double value_ = 0;
};

Element perfect_tree(const std::vector<Element>& leaves, std::size_t first, std::size_t count) {
  if (count == 1) return leaves[first];
  return perfect_tree(leaves, first, count / 2).combined(perfect_tree(leaves, first + count / 2, count / 2));
}

}  // namespace

std::uint64_t reference(const Reduction& reduction, const std::vector<std::uint64_t>& sources, int mapped) {
  const bool divides = reduction.op.kind() == Kind::kAvg && reduction.last && reduction.ranks != 1;
  const bool multiplies = reduction.op.kind() == Kind::kPreMulSum && mapped >= 0 && reduction.op.scalar() != 1;
  if (sources.size() == 1 && !divides && !multiplies) return sources[0];

  std::vector<Element> elements;
  for (const std::uint64_t code : sources) elements.emplace_back(reduction, code);
  if (multiplies)
    elements[static_cast<std::size_t>(mapped)] =
        elements[static_cast<std::size_t>(mapped)].multiplied(reduction.op.scalar());

  std::size_t results = 1;
  while (2 * results <= elements.size()) results *= 2;
  const std::size_t pairs = elements.size() - results;
  std::vector<Element> leaves;
  for (std::size_t i = 0; i < pairs; ++i) leaves.push_back(elements[2 * i].combined(elements[2 * i + 1]));
  for (std::size_t i = 2 * pairs; i < elements.size(); ++i) leaves.push_back(elements[i]);

  const Element sum = perfect_tree(leaves, 0, results);
  return divides ? sum.divided(reduction.ranks).code() : sum.code();
}

}  // namespace tutti
