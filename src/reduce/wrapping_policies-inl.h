// What sums and products of integers modulo 2^bits do with an element; see combine-inl.h.

#if defined(TUTTI_REDUCE_WRAPPING_POLICIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_WRAPPING_POLICIES_INL_H_
#undef TUTTI_REDUCE_WRAPPING_POLICIES_INL_H_
#else
#define TUTTI_REDUCE_WRAPPING_POLICIES_INL_H_
#endif

#include <cstdint>

#include "reduce/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

template <class T>
struct WrappingSum : PlainElements<T> {
  explicit WrappingSum(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Add(a, b);
  }
};

template <class T>
struct WrappingProduct : PlainElements<T> {
  explicit WrappingProduct(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Mul(a, b);
  }
};

// Bytes as words, for there is no multiplication of bytes: the low byte of a product of words is the same.
struct WidenedBytes {
  using Stored = std::uint8_t;
  using Lane = std::uint16_t;

  template <class Access, class D>
  HWY_INLINE hn::Vec<D> load(Access access, D d, const Stored* from) const {
    return hn::PromoteTo(d, access.load(hn::Rebind<Stored, D>(), from));
  }
  template <class Access, class D>
  HWY_INLINE void store(Access access, D d, hn::Vec<D> value, Stored* to) const {
    const hn::Rebind<Stored, D> bytes;
    const auto low = hn::BitCast(hn::RebindToSigned<D>(), hn::And(value, hn::Set(d, Lane{0xff})));
    access.store(bytes, hn::DemoteTo(bytes, low), to);
  }
};

struct WrappingByteSum : WidenedBytes {
  explicit WrappingByteSum(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Add(a, b);
  }
};

struct WrappingByteProduct : WidenedBytes {
  explicit WrappingByteProduct(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Mul(a, b);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // per instruction set
