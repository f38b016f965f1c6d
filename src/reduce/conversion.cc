// Small floating types to f32 and back, for the combinations that have no kernel of their own.

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/conversion.cc"
#include "hwy/foreach_target.h"
#include "reduce/small_floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

// As combine() of one source, with different elements on either side; source and dst do not overlap.
template <class From, class To>
HWY_INLINE void convert(const typename From::Stored* source, typename To::Stored* dst, std::size_t elements) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t at = 0;
  for (; at + lanes <= elements; at += lanes) {
    To().store(AllLanes{}, d, From().load(AllLanes{}, d, source + at), dst + at);
  }
  const hn::CappedTag<float, 1> one;
  for (; at < elements; ++at) To().store(AllLanes{}, one, From().load(AllLanes{}, one, source + at), dst + at);
}

template <class Elements>
void widen(const void* source, float* dst, std::size_t elements) {
  convert<Elements, PlainElements<float>>(static_cast<const typename Elements::Stored*>(source), dst, elements);
}

template <class Elements>
void narrow(const float* source, void* dst, std::size_t elements) {
  convert<PlainElements<float>, Elements>(source, static_cast<typename Elements::Stored*>(dst), elements);
}

template <class Elements>
inline constexpr Conversion kConversion{widen<Elements>, narrow<Elements>};

const Conversion* find_conversion(DataType type) {
  switch (type) {
    case DataType::kF16:
      return &kConversion<F16Elements>;
    case DataType::kBF16:
      return &kConversion<BF16Elements>;
    case DataType::kF8E4M3:
      return &kConversion<F8E4M3Elements>;
    default:
      return &kConversion<F8E5M2Elements>;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_conversion);

const Conversion& conversion(DataType type) { return *HWY_DYNAMIC_DISPATCH(find_conversion)(type); }

}  // namespace tutti
#endif
