// What sums and products of floats do with an element; see combine-inl.h. `Elements` loads and stores.

#if defined(TUTTI_REDUCE_FLOAT_POLICIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_FLOAT_POLICIES_INL_H_
#undef TUTTI_REDUCE_FLOAT_POLICIES_INL_H_
#else
#define TUTTI_REDUCE_FLOAT_POLICIES_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "reduce/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

// Processors differ in the sign and payload of the NaN that they make.
template <class D>
HWY_INLINE hn::Vec<D> with_canonical_nan(D d, hn::Vec<D> value) {
  return hn::IfThenElse(hn::Eq(value, value), value, hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()));
}

template <class Elements>
class FloatSum : public Elements {
 public:
  using typename Elements::Lane;
  using typename Elements::Stored;

  explicit FloatSum(const Pass& pass) : divides_(pass.divisor != 0), divisor_(static_cast<Lane>(pass.divisor)) {}

  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Add(a, b);
  }
  template <class Access, class D>
  HWY_INLINE void store(Access access, D d, hn::Vec<D> value, Stored* to) const {
    if (divides_) value = hn::Div(value, hn::Set(d, divisor_));
    Elements::store(access, d, with_canonical_nan(d, value), to);
  }

 private:
  const bool divides_;
  const Lane divisor_;
};

template <class Elements>
class FloatProduct : public Elements {
 public:
  using typename Elements::Stored;

  explicit FloatProduct(const Pass&) {}

  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Mul(a, b);
  }
  template <class Access, class D>
  HWY_INLINE void store(Access access, D d, hn::Vec<D> value, Stored* to) const {
    Elements::store(access, d, with_canonical_nan(d, value), to);
  }
};

// Rounds f32 to a smaller type: to nearest even, with that type's subnormals and overflow.
template <class D>
HWY_INLINE hn::Vec<D> rounded_to(D d, hn::Vec<D> value, const Rounding& rounding) {
  const hn::RebindToSigned<D> di;
  const auto magnitude = hn::Abs(value);
  const auto sign = hn::Xor(value, magnitude);
  const auto bits = hn::BitCast(di, magnitude);

  const int dropped = rounding.dropped_bits;
  const auto odd = hn::And(hn::ShiftRightSame(bits, dropped), hn::Set(di, 1));
  const auto below_half = hn::Set(di, (1 << (dropped - 1)) - 1);
  const auto kept = hn::Set(di, -(1 << dropped));
  auto rounded = hn::And(hn::Add(hn::Add(bits, below_half), odd), kept);
  rounded = hn::IfThenElse(hn::Gt(rounded, hn::Set(di, rounding.largest)), hn::Set(di, rounding.overflow), rounded);

  const auto shift = hn::Set(d, rounding.subnormal_shift);
  const auto subnormal = hn::Sub(hn::Add(magnitude, shift), shift);
  const auto is_subnormal = hn::Lt(magnitude, hn::Set(d, rounding.smallest_normal));
  const auto result = hn::IfThenElse(is_subnormal, subnormal, hn::BitCast(d, rounded));
  // A NaN's bits may have overflowed above.
  return hn::IfThenElse(hn::Eq(value, value), hn::Or(result, sign), value);
}

// Rounds each f32 result of Operation to the type of Pass::rounding.
template <class Operation>
class RoundedAtEveryNode : public Operation {
 public:
  explicit RoundedAtEveryNode(const Pass& pass) : Operation(pass), rounding_(pass.rounding) {}

  template <class D>
  HWY_INLINE hn::Vec<D> combine(D d, hn::Vec<D> a, hn::Vec<D> b) const {
    return rounded_to(d, Operation::combine(d, a, b), rounding_);
  }

 private:
  const Rounding rounding_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // per instruction set
