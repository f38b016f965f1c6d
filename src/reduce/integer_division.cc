// Quotients by the same divisor, truncated toward zero, without dividing.

#include "reduce/integer_division.h"

#include <bit>
#include <cstdint>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/integer_division.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Up to 32 bits: multiplies floats by a reciprocal that is a little too large, in loops that compilers turn into
// vectors. With x = k divisor + j, x / divisor lies at least 1 / divisor below k + 1. The reciprocal's excess,
// relative, is 1.5 times kExcess at most and more than all roundings, so the product lies in [k, k + 1) if x 1.5
// kExcess < 1.
template <class T>
void divide_floats(void* data, std::size_t elements, int divisor) {
  using Float = std::conditional_t<sizeof(T) <= 2, float, double>;
  constexpr Float kExcess = sizeof(T) <= 2 ? Float{1} / (1 << 20) : Float{1} / (std::int64_t{1} << 40);
  T* values = static_cast<T*>(data);
  const Float reciprocal = 1 / static_cast<Float>(divisor) * (1 + kExcess);
  for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<T>(static_cast<Float>(values[i]) * reciprocal);
}

#if HWY_TARGET == HWY_SCALAR
template <class T>
void divide_long(void* data, std::size_t elements, int divisor) {
  T* values = static_cast<T*>(data);
  for (std::size_t i = 0; i < elements; ++i) values[i] /= static_cast<T>(divisor);
}
#else
// 64 bits: the upper half of a product with 2^64 (2^bits / divisor - 1) + 1, after T. Granlund and P. Montgomery,
// Division by Invariant Integers using Multiplication, figure 4.1.
class LongDivision {
 public:
  explicit LongDivision(std::uint64_t divisor) : shift_(static_cast<int>(std::bit_width(divisor - 1)) - 1) {
    // Long division of 2^64 (2^bits - divisor), 32 bits at a time: divisor < 2^31.
    const std::uint64_t dividend = (std::uint64_t{2} << shift_) - divisor;
    const std::uint64_t upper = (dividend << 32) / divisor;
    const std::uint64_t lower = ((dividend << 32) % divisor << 32) / divisor;
    multiplier_ = (upper << 32 | lower) + 1;
  }

  template <class D>
  HWY_INLINE hn::Vec<D> quotient(D d, hn::Vec<D> value) const {
    const auto product = upper_half(d, value);
    return hn::ShiftRightSame(hn::Add(product, hn::ShiftRight<1>(hn::Sub(value, product))), shift_);
  }

 private:
  template <class D>
  HWY_INLINE hn::Vec<D> upper_half(D d, hn::Vec<D> value) const {
    const hn::Repartition<std::uint32_t, D> words;
    const auto low = hn::BitCast(words, value);
    const auto high = hn::BitCast(words, hn::ShiftRight<32>(value));
    const auto by_low = hn::BitCast(words, hn::Set(d, multiplier_));
    const auto by_high = hn::BitCast(words, hn::Set(d, multiplier_ >> 32));
    const auto mixed = hn::MulEven(low, by_high);
    const auto middle = hn::Add(hn::Add(hn::MulEven(high, by_low), hn::ShiftRight<32>(hn::MulEven(low, by_low))),
                                hn::And(mixed, hn::Set(d, std::uint64_t{0xffffffff})));
    return hn::Add(hn::Add(hn::MulEven(high, by_high), hn::ShiftRight<32>(mixed)), hn::ShiftRight<32>(middle));
  }

  int shift_;
  std::uint64_t multiplier_;
};

template <class T>
void divide_long(void* data, std::size_t elements, int divisor) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  T* values = static_cast<T*>(data);
  const LongDivision division(static_cast<std::uint64_t>(divisor));
  std::size_t at = 0;
  for (; at + lanes <= elements; at += lanes) {
    auto* const place = reinterpret_cast<std::uint64_t*>(values + at);
    auto value = hn::LoadU(d, place);
    if constexpr (std::is_signed_v<T>) {
      const auto sign = hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(hn::RebindToSigned<decltype(d)>(), value)));
      value = division.quotient(d, hn::Sub(hn::Xor(value, sign), sign));
      value = hn::Sub(hn::Xor(value, sign), sign);
    } else {
      value = division.quotient(d, value);
    }
    hn::StoreU(value, d, place);
  }
  for (; at < elements; ++at) values[at] /= static_cast<T>(divisor);
}
#endif

IntegerDivision find_division(DataType type) {
  switch (type) {
    case DataType::kI8:
      return divide_floats<std::int8_t>;
    case DataType::kU8:
      return divide_floats<std::uint8_t>;
    case DataType::kI16:
      return divide_floats<std::int16_t>;
    case DataType::kU16:
      return divide_floats<std::uint16_t>;
    case DataType::kI32:
      return divide_floats<std::int32_t>;
    case DataType::kU32:
      return divide_floats<std::uint32_t>;
    case DataType::kI64:
      return divide_long<std::int64_t>;
    default:
      return divide_long<std::uint64_t>;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_division);

IntegerDivision integer_division(DataType type) { return HWY_DYNAMIC_DISPATCH(find_division)(type); }

}  // namespace tutti
#endif
