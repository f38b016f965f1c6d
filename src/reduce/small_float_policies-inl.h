// What sums and products of f16, bf16 and fp8 do with an element, in f32; see combine-inl.h.

#if defined(TUTTI_REDUCE_SMALL_FLOAT_POLICIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_SMALL_FLOAT_POLICIES_INL_H_
#undef TUTTI_REDUCE_SMALL_FLOAT_POLICIES_INL_H_
#else
#define TUTTI_REDUCE_SMALL_FLOAT_POLICIES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "reduce/float_policies-inl.h"
#include "reduce/small_floats-inl.h"
#include "reduce/wide_codecs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

struct Addition {
  template <class Vector>
  static HWY_INLINE Vector apply(Vector a, Vector b) {
    return hn::Add(a, b);
  }
};

struct Multiplication {
  template <class Vector>
  static HWY_INLINE Vector apply(Vector a, Vector b) {
    return hn::Mul(a, b);
  }
};

// A value is the f32 vectors of a whole vector of codes, as Codec makes them: in an order of its own, so that no lane
// moves farther than it must. Where there is a single element it is one vector, by Codec::Elements.
template <class Codec, class Operation>
class WideReduction {
 public:
  using Stored = typename Codec::Stored;
  using Lane = Stored;

  explicit WideReduction(const Pass& pass) : divides_(pass.divisor != 0), divisor_(static_cast<float>(pass.divisor)) {}

  template <class Access, class D>
  HWY_INLINE auto load(Access access, D d, const Stored* from) const {
    if constexpr (kSingle<D>) {
      return typename Codec::Elements().load(access, hn::Rebind<float, D>(), from);
    } else {
      return Codec::decode(d, access.load(d, from));
    }
  }

  template <class D, class Value>
  HWY_INLINE Value combine(D, Value a, Value b) const {
    if constexpr (kSingle<D>) {
      return Operation::apply(a, b);
    } else {
      return combined(a, b, typename Value::Indices());
    }
  }

  template <class Access, class D, class Value>
  HWY_INLINE void store(Access access, D d, Value value, Stored* to) const {
    if constexpr (kSingle<D>) {
      const hn::Rebind<float, D> df;
      typename Codec::Elements().store(access, df, divided(df, value), to);
    } else {
      const hn::Repartition<float, D> df;
      if (divides_) value = divided_parts(df, value, typename Value::Indices());
      access.store(d, Codec::encode(d, value), to);
    }
  }

 private:
  template <class D>
  static constexpr bool kSingle = hn::MaxLanes(D()) == 1;

  template <class Value, std::size_t... kIndex>
  static HWY_INLINE Value combined(const Value& a, const Value& b, std::index_sequence<kIndex...>) {
    return {{Operation::apply(a.parts[kIndex], b.parts[kIndex])...}};
  }

  template <class DF, class Value, std::size_t... kIndex>
  HWY_INLINE Value divided_parts(DF df, const Value& value, std::index_sequence<kIndex...>) const {
    return {{hn::Div(value.parts[kIndex], hn::Set(df, divisor_))...}};
  }

  template <class DF>
  HWY_INLINE hn::Vec<DF> divided(DF df, hn::Vec<DF> value) const {
    return divides_ ? hn::Div(value, hn::Set(df, divisor_)) : value;
  }

  const bool divides_;
  const float divisor_;
};

template <class DF, std::size_t kCount, std::size_t... kIndex>
HWY_INLINE Parts<DF, kCount> rounded_parts(const Parts<DF, kCount>& value, const Rounding& rounding,
                                           std::index_sequence<kIndex...>) {
  return {{rounded_to(DF(), value.parts[kIndex], rounding)...}};
}

template <class DF, std::size_t kCount, std::size_t... kIndex>
HWY_INLINE Parts<DF, kCount> multiplied_parts(const Parts<DF, kCount>& value, float factor,
                                              std::index_sequence<kIndex...>) {
  return {{hn::Mul(value.parts[kIndex], hn::Set(DF(), factor))...}};
}

// Rounds every vector of a value to the type of Pass::rounding.
template <class Value>
HWY_INLINE Value rounded_value(const Value& value, const Rounding& rounding) {
  if constexpr (requires { typename Value::Indices; }) {
    return rounded_parts(value, rounding, typename Value::Indices());
  } else {
    return rounded_to(hn::DFromV<Value>(), value, rounding);
  }
}

// A sum in which one source is multiplied, rounded as the ranks that receive it would have it.
template <class Sum>
class MultipliedSmallSum : public Sum {
 public:
  explicit MultipliedSmallSum(const Pass& pass)
      : Sum(pass),
        source_(pass.multiplied_source),
        factor_(static_cast<float>(pass.factor)),
        rounding_(pass.rounding) {}

  template <class D, class Value>
  HWY_INLINE Value map(D, const Value& value, int source) const {
    if (source != source_) return value;
    if constexpr (requires { typename Value::Indices; }) {
      return rounded_value(multiplied_parts(value, factor_, typename Value::Indices()), rounding_);
    } else {
      return rounded_value(hn::Mul(value, hn::Set(hn::DFromV<Value>(), factor_)), rounding_);
    }
  }

 private:
  const int source_;
  const float factor_;
  const Rounding rounding_;
};

// Rounds at every node of the tree.
template <class Operation>
class RoundedNodes : public Operation {
 public:
  explicit RoundedNodes(const Pass& pass) : Operation(pass), rounding_(pass.rounding) {}

  template <class D, class Value>
  HWY_INLINE Value combine(D d, const Value& a, const Value& b) const {
    return rounded_value(Operation::combine(d, a, b), rounding_);
  }

 private:
  const Rounding rounding_;
};

using F16Sum = FloatSum<F16Elements>;
using F16Product = FloatProduct<F16Elements>;
using BF16Sum = WideReduction<BF16Codec, Addition>;
using BF16Product = WideReduction<BF16Codec, Multiplication>;
#if TUTTI_CONVERTS_F16
using F8E4M3Codec = F8Codec<F8E4M3Elements, kFormatF8E4M3>;
using F8E5M2Codec = F8Codec<F8E5M2Elements, kFormatF8E5M2>;
using F8E4M3Sum = WideReduction<F8E4M3Codec, Addition>;
using F8E5M2Sum = WideReduction<F8E5M2Codec, Addition>;
using F8E4M3Product = WideReduction<F8E4M3Codec, Multiplication>;
using F8E5M2Product = WideReduction<F8E5M2Codec, Multiplication>;
#else
using F8E4M3Sum = FloatSum<F8E4M3Elements>;
using F8E5M2Sum = FloatSum<F8E5M2Elements>;
using F8E4M3Product = FloatProduct<F8E4M3Elements>;
using F8E5M2Product = FloatProduct<F8E5M2Elements>;
#endif

template <class Sum, class Product, class MultipliedSum>
const KernelRow* small_float_row(ReduceOp::Kind kind) {
  switch (kind) {
    case ReduceOp::Kind::kProd:
      return &kKernels<Product, kMaxFusedSmall>;
    case ReduceOp::Kind::kPreMulSum:
      return &kKernelsFromOne<MultipliedSum, kMaxFusedSmall>;
    default:
      return &kKernelsFromOne<Sum, kMaxFusedSmall>;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // per instruction set
