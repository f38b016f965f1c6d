// Sums and products of f16, bf16 and fp8 in f32, rounded once: what training mostly asks for.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/small_float_kernels.cc"
#include "hwy/foreach_target.h"
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

template <class Codec>
const KernelRow* wide_row(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kSum ? &kKernelsFromOne<WideReduction<Codec, Addition>>
                                      : &kKernels<WideReduction<Codec, Multiplication>>;
}

template <class Elements>
const KernelRow* plain_row(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kSum ? &kKernelsFromOne<FloatSum<Elements>> : &kKernels<FloatProduct<Elements>>;
}

const KernelRow* find_small_float(ReduceOp::Kind kind, DataType type) {
  switch (type) {
    case DataType::kF16:
      return plain_row<F16Elements>(kind);
    case DataType::kBF16:
      return wide_row<BF16Codec>(kind);
#if TUTTI_CONVERTS_F16
    case DataType::kF8E4M3:
      return wide_row<F8Codec<F8E4M3Elements, kFormatF8E4M3>>(kind);
    default:
      return wide_row<F8Codec<F8E5M2Elements, kFormatF8E5M2>>(kind);
#else
    case DataType::kF8E4M3:
      return plain_row<F8E4M3Elements>(kind);
    default:
      return plain_row<F8E5M2Elements>(kind);
#endif
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_small_float);

const KernelRow& small_float_kernels(ReduceOp::Kind kind, DataType type) {
  return *HWY_DYNAMIC_DISPATCH(find_small_float)(kind, type);
}

}  // namespace tutti
#endif
