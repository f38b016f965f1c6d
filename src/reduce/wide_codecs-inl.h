// Whole vectors of bf16 and fp8 codes as several vectors of f32, and back.
//
// A codec:
//   Stored, Elements
//   decode(d, codes)   a Parts, in any order of elements
//   encode(d, parts)   codes of parts in that order: rounded to nearest even, NaNs canonical

#if defined(TUTTI_REDUCE_WIDE_CODECS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_WIDE_CODECS_INL_H_
#undef TUTTI_REDUCE_WIDE_CODECS_INL_H_
#else
#define TUTTI_REDUCE_WIDE_CODECS_INL_H_
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "reduce/float_format.h"
#include "reduce/small_floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

template <class DF, std::size_t kCount>
struct Parts {
  using Indices = std::make_index_sequence<kCount>;  // to address them one by one: a loop keeps them in memory
  hn::Vec<DF> parts[kCount];
};

// bf16 is the upper half of f32, two of which share a word: no lane moves. Parts: elements with even and odd index.
struct BF16Codec {
  using Stored = std::uint16_t;
  using Elements = BF16Elements;

  template <class D>
  static HWY_INLINE auto decode(D, hn::Vec<D> codes) {
    const hn::Repartition<std::uint32_t, D> du;
    const hn::Repartition<float, D> df;
    const auto words = hn::BitCast(du, codes);
    return Parts<decltype(df), 2>{
        {hn::BitCast(df, hn::ShiftLeft<16>(words)), hn::BitCast(df, hn::And(words, hn::Set(du, kUpper)))}};
  }

  template <class D, class Value>
  static HWY_INLINE hn::Vec<D> encode(D d, const Value& value) {
    const hn::Repartition<std::uint32_t, D> du;
    const hn::Repartition<float, D> df;
    const auto even = hn::ShiftRight<16>(rounded(df, value.parts[0]));
    const auto odd = hn::And(rounded(df, value.parts[1]), hn::Set(du, kUpper));
    return hn::BitCast(d, hn::Or(even, odd));
  }

 private:
  static constexpr std::uint32_t kUpper = 0xffff0000;

  // The code in the upper half of each word; the lower half is left over.
  template <class DF>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<DF>> rounded(DF df, hn::Vec<DF> value) {
    const hn::RebindToUnsigned<DF> du;
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto sum = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    const auto nan = hn::Set(df, std::numeric_limits<float>::quiet_NaN());
    return hn::BitCast(du, hn::IfThenElse(hn::Eq(value, value), hn::BitCast(df, sum), nan));
  }
};

#if TUTTI_CONVERTS_F16
// fp8 by way of f16, which the processor converts: f16 has every value of both formats, E4M3's scaled down by 2^8.
// Parts: the lower and the upper half of the elements with even index, then of those with odd index.
template <class EightBits, const FloatFormat& kFormat>
struct F8Codec {
  using Stored = std::uint8_t;
  using Elements = EightBits;

  template <class D>
  static HWY_INLINE auto decode(D, hn::Vec<D> codes) {
    const hn::Repartition<std::uint16_t, D> du;
    const auto pairs = hn::BitCast(du, codes);
    const auto even = half_floats(du, hn::ShiftLeft<8>(pairs));
    const auto odd = half_floats(du, hn::And(pairs, hn::Set(du, kUpper)));
    const hn::Half<decltype(du)> half;
    return Parts<hn::Repartition<float, D>, 4>{
        {widened(half, hn::LowerHalf(half, even)), widened(half, hn::UpperHalf(half, even)),
         widened(half, hn::LowerHalf(half, odd)), widened(half, hn::UpperHalf(half, odd))}};
  }

  template <class D, class Value>
  static HWY_INLINE hn::Vec<D> encode(D d, const Value& value) {
    const hn::Repartition<std::uint16_t, D> du;
    const hn::Half<decltype(du)> half;
    const auto even = upper_codes(du, hn::Combine(du, narrowed(half, value.parts[1]), narrowed(half, value.parts[0])));
    const auto odd = upper_codes(du, hn::Combine(du, narrowed(half, value.parts[3]), narrowed(half, value.parts[2])));
    const auto codes = hn::BitCast(d, hn::Or(hn::ShiftRight<8>(even), hn::And(odd, hn::Set(du, kUpper))));
    if constexpr (!kFormat.has_infinity()) return codes;
    const hn::RebindToSigned<D> di;
    const auto magnitude = hn::BitCast(di, hn::And(codes, hn::Set(d, kMagnitude)));
    const auto is_nan = hn::Gt(magnitude, hn::Set(di, static_cast<std::int8_t>(kFormat.largest)));
    return hn::IfThenElse(hn::RebindMask(d, is_nan), hn::Set(d, static_cast<std::uint8_t>(kFormat.canonical_nan)),
                          codes);
  }

 private:
  static constexpr std::uint16_t kUpper = 0xff00;
  static constexpr std::uint8_t kMagnitude = 0x7f;
  static constexpr int kRebias = kFormatF16.bias - kFormat.bias;
  static constexpr float kScale = power_of_two(kRebias);    // of what f16 has
  static constexpr int kShift = kFormat.mantissa_bits - 2;  // from the place of a code in the upper byte of an f16
  static constexpr float kOverflow = 464;                   // E4M3: halfway beyond the largest value, which is even
  static constexpr float kNan = 480;                        // what E4M3's code for NaN would stand for

  // From codes in upper bytes.
  template <class DU>
  static HWY_INLINE hn::Vec<DU> half_floats(DU du, hn::Vec<DU> codes) {
    if constexpr (kShift == 0) return codes;
    const hn::RebindToSigned<DU> di;
    const auto is_nan = hn::Eq(hn::Add(codes, codes), hn::Set(du, std::uint16_t{2 * kMagnitude << 8}));
    const auto shifted = hn::BitCast(du, hn::ShiftRight<1>(hn::BitCast(di, codes)));
    return hn::IfThenElse(is_nan, hn::Set(du, static_cast<std::uint16_t>(kFormatF16.canonical_nan)),
                          hn::And(shifted, hn::Set(du, std::uint16_t{0xbf80})));
  }

  // And back. Lower bytes are left over.
  template <class DU>
  static HWY_INLINE hn::Vec<DU> upper_codes(DU du, hn::Vec<DU> halfs) {
    if constexpr (kShift == 0) return halfs;
    return hn::Or(hn::Add(halfs, halfs), hn::And(halfs, hn::Set(du, std::uint16_t{0x8000})));
  }

  template <class DU>
  static HWY_INLINE auto widened(DU du, hn::Vec<DU> halfs) {
    const hn::Rebind<float, DU> df;
    const auto value = hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, DU>(), halfs));
    if constexpr (kShift == 0) return value;
    return hn::Mul(value, hn::Set(df, kScale));
  }

  // Rounds to nearest even: the sum's last bit has the weight of the last one that is kept.
  template <class DU, class Vector>
  static HWY_INLINE hn::Vec<DU> narrowed(DU du, Vector value) {
    const hn::Rebind<float, DU> df;
    const hn::RebindToSigned<decltype(df)> di;
    constexpr std::int32_t kExponents = 0xff << kFormatF32.mantissa_bits;
    constexpr std::int32_t kOneAndAHalf = (23 - kFormat.mantissa_bits) << 23 | 1 << 22;
    const auto smallest = hn::Set(di, std::bit_cast<std::int32_t>(power_of_two(1 - kFormat.bias)));
    auto exponent = hn::Max(hn::And(hn::BitCast(di, value), hn::Set(di, kExponents)), smallest);
    // Beyond the largest value it must not overflow: f16 has the infinities.
    if constexpr (kFormat.has_infinity()) {
      exponent = hn::Min(exponent, hn::Set(di, std::bit_cast<std::int32_t>(power_of_two(kFormat.bias + 1))));
    }
    const auto shift = hn::BitCast(df, hn::Add(exponent, hn::Set(di, kOneAndAHalf)));
    auto rounded = hn::Sub(hn::Add(value, shift), shift);
    if constexpr (kShift != 0) rounded = hn::Mul(rounded, hn::Set(df, 1 / kScale));
    rounded = hn::CopySign(rounded, value);
    if constexpr (!kFormat.has_infinity()) {
      const auto fits = hn::Le(hn::Abs(value), hn::Set(df, kOverflow));
      rounded = hn::IfThenElse(fits, rounded, hn::Set(df, kNan / kScale));
    }
    return hn::BitCast(du, hn::DemoteTo(hn::Rebind<hwy::float16_t, DU>(), rounded));
  }
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // per instruction set
