// Sums of f16 and bf16 in f32, rounded once: what training mostly asks for.

#include <cstdint>
#include <limits>

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/half_kernels.cc"
#include "hwy/foreach_target.h"
#include "reduce/float_policies-inl.h"
#include "reduce/small_floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

// bf16 as the upper halves of f32, two of which share a word: no lane moves. A value is two vectors, of the elements
// with even and odd index, or one where there is a single element.
class BF16Sum {
 public:
  using Stored = std::uint16_t;
  using Lane = std::uint16_t;

  explicit BF16Sum(const Pass& pass) : divides_(pass.divisor != 0), divisor_(static_cast<float>(pass.divisor)) {}

  template <class Access, class D>
  HWY_INLINE auto load(Access access, D d, const Stored* from) const {
    const auto codes = access.load(d, from);
    if constexpr (kSingle<D>) {
      return hn::BitCast(hn::Rebind<float, D>(),
                         hn::ShiftLeft<16>(hn::PromoteTo(hn::Rebind<std::uint32_t, D>(), codes)));
    } else {
      const hn::Repartition<std::uint32_t, D> du;
      const hn::Repartition<float, D> df;
      const auto words = hn::BitCast(du, codes);
      return Pair<decltype(df)>{hn::BitCast(df, hn::ShiftLeft<16>(words)),
                                hn::BitCast(df, hn::And(words, hn::Set(du, kUpper)))};
    }
  }

  template <class D, class Value>
  HWY_INLINE Value combine(D, Value a, Value b) const {
    if constexpr (kSingle<D>) {
      return hn::Add(a, b);
    } else {
      return {hn::Add(a.even, b.even), hn::Add(a.odd, b.odd)};
    }
  }

  template <class Access, class D, class Value>
  HWY_INLINE void store(Access access, D d, Value value, Stored* to) const {
    if constexpr (kSingle<D>) {
      const auto word = hn::ShiftRight<16>(rounded(hn::Rebind<float, D>(), value));
      access.store(d, hn::DemoteTo(d, hn::BitCast(hn::Rebind<std::int32_t, D>(), word)), to);
    } else {
      const hn::Repartition<std::uint32_t, D> du;
      const hn::Repartition<float, D> df;
      const auto even = hn::ShiftRight<16>(rounded(df, value.even));
      const auto odd = hn::And(rounded(df, value.odd), hn::Set(du, kUpper));
      access.store(d, hn::BitCast(d, hn::Or(even, odd)), to);
    }
  }

 private:
  template <class DF>
  struct Pair {
    hn::Vec<DF> even;
    hn::Vec<DF> odd;
  };

  template <class D>
  static constexpr bool kSingle = hn::MaxLanes(D()) == 1;
  static constexpr std::uint32_t kUpper = 0xffff0000;

  // The code in the upper half of each word; the lower half is left over.
  template <class DF>
  HWY_INLINE hn::Vec<hn::RebindToUnsigned<DF>> rounded(DF df, hn::Vec<DF> value) const {
    const hn::RebindToUnsigned<DF> du;
    if (divides_) value = hn::Div(value, hn::Set(df, divisor_));
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto sum = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    return hn::BitCast(du, hn::IfThenElse(hn::Eq(value, value), hn::BitCast(df, sum), canonical_nan(df)));
  }

  template <class DF>
  static HWY_INLINE hn::Vec<DF> canonical_nan(DF df) {
    return hn::Set(df, std::numeric_limits<float>::quiet_NaN());
  }

  const bool divides_;
  const float divisor_;
};

const KernelRow* find_half_sum(DataType type) {
  return type == DataType::kF16 ? &kKernelsFromOne<FloatSum<F16Elements>> : &kKernelsFromOne<BF16Sum>;
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_half_sum);

const KernelRow& half_sum_kernels(DataType type) { return *HWY_DYNAMIC_DISPATCH(find_half_sum)(type); }

}  // namespace tutti
#endif
