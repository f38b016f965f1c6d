// Elements of f16, bf16 and fp8 as f32 lanes; see combine-inl.h.

#if defined(TUTTI_REDUCE_SMALL_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_SMALL_FLOATS_INL_H_
#undef TUTTI_REDUCE_SMALL_FLOATS_INL_H_
#else
#define TUTTI_REDUCE_SMALL_FLOATS_INL_H_
#endif

#include <bit>
#include <cstdint>

#include "reduce/combine-inl.h"

// Whether the processor converts between f16 and f32.
#undef TUTTI_CONVERTS_F16
#define TUTTI_CONVERTS_F16 (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

// Any format, with integer operations and exact additions only: no instruction set disagrees, and no intermediate is
// an f32 subnormal.
template <class T, const FloatFormat& kFormat>
struct SmallFloats {
  using Stored = T;
  using Lane = float;

  template <class Access, class D>
  HWY_INLINE hn::Vec<D> load(Access access, D d, const T* from) const {
    const hn::RebindToSigned<D> di;
    const hn::RebindToUnsigned<D> du;
    const auto code = hn::PromoteTo(du, access.load(hn::Rebind<T, D>(), from));
    // bf16 is the upper half of f32.
    if constexpr (kRebias == 0) return hn::BitCast(d, hn::ShiftLeft<kDropped>(code));
    const auto sign = hn::ShiftLeft<32 - kFormat.bits>(hn::And(code, hn::Set(du, kSign)));
    const auto magnitude = hn::BitCast(di, hn::AndNot(hn::Set(du, kSign), code));
    const auto normal = hn::Add(hn::ShiftLeft<kDropped>(magnitude), hn::Set(di, kRebias << 23));
    // One exponent up and 2^(1-bias) down again: what lies below the hidden bit becomes normal.
    const auto subnormal =
        hn::Sub(hn::BitCast(d, hn::Add(normal, hn::Set(di, 1 << 23))), hn::Set(d, power_of_two(1 - kFormat.bias)));
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(di, 1 << kFormat.mantissa_bits));
    auto bits = hn::IfThenElse(is_subnormal, hn::BitCast(di, subnormal), normal);
    if constexpr (kFormat.has_infinity()) {
      const auto is_infinity = hn::Eq(magnitude, hn::Set(di, kLargest));
      bits = hn::IfThenElse(is_infinity, hn::Set(di, kF32Infinity), bits);
    }
    bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, kLargest)), hn::Set(di, kF32Nan), bits);
    return hn::BitCast(d, hn::Or(hn::BitCast(du, bits), sign));
  }

  template <class Access, class D>
  HWY_INLINE void store(Access access, D d, hn::Vec<D> value, T* to) const {
    const hn::RebindToSigned<D> di;
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<T, D> narrow;
    const auto magnitude = hn::Abs(value);
    const auto bits = hn::BitCast(di, magnitude);
    const auto sign = hn::And(hn::ShiftRight<32 - kFormat.bits>(hn::BitCast(du, value)), hn::Set(du, kSign));

    const auto odd = hn::And(hn::ShiftRight<kDropped>(bits), hn::Set(di, 1));
    const auto below_half = hn::Set(di, (1 << (kDropped - 1)) - 1 - (kRebias << 23));
    auto code = hn::ShiftRight<kDropped>(hn::Add(hn::Add(bits, below_half), odd));
    if constexpr (kRebias != 0) {
      // The sum's last bit has the weight of the smallest subnormal, so the addition rounds.
      constexpr float kShift = power_of_two(1 - kFormat.bias + kDropped);
      const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(magnitude, hn::Set(d, kShift))),
                                     hn::Set(di, std::bit_cast<std::int32_t>(kShift)));
      const auto is_subnormal = hn::Lt(magnitude, hn::Set(d, power_of_two(1 - kFormat.bias)));
      code = hn::IfThenElse(hn::RebindMask(di, is_subnormal), subnormal, code);
    }
    // Without infinities, what overflows is NaN too.
    auto is_nan = hn::Gt(code, hn::Set(di, kLargest));
    if constexpr (kFormat.has_infinity()) {
      code = hn::Min(code, hn::Set(di, kLargest));
      is_nan = hn::Gt(bits, hn::Set(di, kF32Infinity));
    }
    code = hn::Or(code, hn::BitCast(di, sign));
    code = hn::IfThenElse(is_nan, hn::Set(di, static_cast<std::int32_t>(kFormat.canonical_nan)), code);
    access.store(narrow, hn::DemoteTo(narrow, code), to);
  }

 private:
  static constexpr std::uint32_t kSign = 1u << (kFormat.bits - 1);
  static constexpr int kDropped = 23 - kFormat.mantissa_bits;
  static constexpr int kRebias = 127 - kFormat.bias;
  static constexpr std::int32_t kLargest = static_cast<std::int32_t>(kFormat.largest);
  static constexpr std::int32_t kF32Infinity = static_cast<std::int32_t>(kFormatF32.largest);
  static constexpr std::int32_t kF32Nan = static_cast<std::int32_t>(kFormatF32.canonical_nan);
};

using BF16Elements = SmallFloats<std::uint16_t, kFormatBF16>;
using F8E4M3Elements = SmallFloats<std::uint8_t, kFormatF8E4M3>;
using F8E5M2Elements = SmallFloats<std::uint8_t, kFormatF8E5M2>;

#if TUTTI_CONVERTS_F16
// The processor's own conversion gives the same bits, once NaNs are canonical.
struct F16Elements {
  using Stored = std::uint16_t;
  using Lane = float;

  template <class Access, class D>
  HWY_INLINE hn::Vec<D> load(Access access, D d, const Stored* from) const {
    const hn::Rebind<Stored, D> codes;
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), access.load(codes, from)));
  }
  template <class Access, class D>
  HWY_INLINE void store(Access access, D d, hn::Vec<D> value, Stored* to) const {
    const hn::Rebind<Stored, D> codes;
    const auto nan =
        hn::BitCast(d, hn::Set(hn::RebindToSigned<D>(), static_cast<std::int32_t>(kFormatF32.canonical_nan)));
    value = hn::IfThenElse(hn::Eq(value, value), value, nan);
    access.store(codes, hn::BitCast(codes, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value)), to);
  }
};
#else
using F16Elements = SmallFloats<std::uint16_t, kFormatF16>;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // per instruction set
