// The kernel that every operation is made of: loads, a tree of combinations, a store; in one pass. Included once per
// instruction set, after foreach_target.h.
//
// A Policy says what happens to an element:
//   Stored, Lane                       type in memory, type of a vector's lanes
//   Policy(const Pass&)
//   load(access, d, pointer)           through access.load(d, pointer), which reads all lanes or the first few
//   map(d, value, source)              where sources differ: the value of that one
//   combine(d, a, b)
//   store(access, d, value, pointer)   through access.store
// Between load and store, a value is whatever these agree on: usually a vector.

#if defined(TUTTI_REDUCE_COMBINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_COMBINE_INL_H_
#undef TUTTI_REDUCE_COMBINE_INL_H_
#else
#define TUTTI_REDUCE_COMBINE_INL_H_
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "hwy/highway.h"
#include "reduce/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct AllLanes {
  template <class D, class T>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    return hn::LoadU(d, from);
  }
  template <class D, class T>
  HWY_INLINE void store(D d, hn::Vec<D> value, T* to) const {
    hn::StoreU(value, d, to);
  }
};

// Stores past the caches. REQUIRES: pointers that are aligned to the vectors' size.
struct StreamedLanes : AllLanes {
  template <class D, class T>
  HWY_INLINE void store(D d, hn::Vec<D> value, T* to) const {
    // There is no such store for parts of the smallest vectors.
    if constexpr (hn::MaxLanes(D()) * sizeof(T) >= 16) {
      hn::Stream(value, d, to);
    } else {
      hn::StoreU(value, d, to);
    }
  }
};

// Touches `count` lanes only; for instruction sets whose masked accesses cannot fault outside of them.
struct FirstLanes {
  std::size_t count;

  template <class D, class T>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    return hn::MaskedLoad(hn::FirstN(d, count), d, from);
  }
  template <class D, class T>
  HWY_INLINE void store(D d, hn::Vec<D> value, T* to) const {
    hn::BlendedStore(value, hn::FirstN(d, count), d, to);
  }
};

// Loads and stores lanes as they lie in memory.
template <class T>
struct PlainElements {
  using Stored = T;
  using Lane = T;

  template <class Access, class D>
  HWY_INLINE hn::Vec<D> load(Access access, D d, const T* from) const {
    return access.load(d, from);
  }
  template <class Access, class D>
  HWY_INLINE void store(Access access, D d, hn::Vec<D> value, T* to) const {
    access.store(d, value, to);
  }
};

template <class Policy, int kSources>
class Combination {
 public:
  using Stored = typename Policy::Stored;

  HWY_INLINE explicit Combination(const Pass& pass)
      : policy_(pass), dst_(static_cast<Stored*>(pass.dst)), dst2_(static_cast<Stored*>(pass.dst2)) {
    for (int s = 0; s < kSources; ++s) sources_[s] = static_cast<const Stored*>(pass.sources[s]);
  }

  template <class Access, class D>
  HWY_INLINE auto value(Access access, D d, std::size_t at) const {
    return subtree<kResults, 0>(access, d, at);
  }

  template <class Access, class D, class Value>
  HWY_INLINE void store(Access access, D d, Value value, std::size_t at) const {
    policy_.store(access, d, value, dst_ + at);
    if (dst2_) policy_.store(access, d, value, dst2_ + at);
  }

  // The same, the last destination past the caches, or both.
  template <class D, class Value>
  HWY_INLINE void stream(D d, Value value, std::size_t at, bool both) const {
    if (both) {
      policy_.store(StreamedLanes{}, d, value, dst_ + at);
    } else if (dst2_) {
      policy_.store(AllLanes{}, d, value, dst_ + at);
    }
    policy_.store(StreamedLanes{}, d, value, (dst2_ ? dst2_ : dst_) + at);
  }

  // Elements before the first vector of so many that may be streamed; as many as `lanes` when none ever can.
  HWY_INLINE std::size_t unaligned_elements(std::size_t lanes) const {
    const auto address = reinterpret_cast<std::uintptr_t>(dst2_ ? dst2_ : dst_);
    if (address % sizeof(Stored) != 0) return lanes;
    return (0 - address) % (lanes * sizeof(Stored)) / sizeof(Stored);
  }

  // Whether both destinations are aligned alike to vectors of so many elements.
  HWY_INLINE bool aligned_alike(std::size_t lanes) const {
    const auto difference = reinterpret_cast<std::uintptr_t>(dst_) - reinterpret_cast<std::uintptr_t>(dst2_);
    return difference % (lanes * sizeof(Stored)) == 0;
  }

 private:
  // p and r of the reproducible tree.
  static constexpr int kResults = static_cast<int>(std::bit_floor(static_cast<unsigned>(kSources)));
  static constexpr int kPairs = kSources - kResults;

  template <class Access, class D>
  HWY_INLINE auto load(Access access, D d, int source, std::size_t at) const {
    const auto value = policy_.load(access, d, sources_[source] + at);
    if constexpr (requires { policy_.map(d, value, source); }) {
      return policy_.map(d, value, source);
    } else {
      return value;
    }
  }

  template <int kCount, int kFirst, class Access, class D>
  HWY_INLINE auto subtree(Access access, D d, std::size_t at) const {
    if constexpr (kCount > 1) {
      return policy_.combine(d, subtree<kCount / 2, kFirst>(access, d, at),
                             subtree<kCount / 2, kFirst + kCount / 2>(access, d, at));
    } else if constexpr (kFirst < kPairs) {
      return policy_.combine(d, load(access, d, 2 * kFirst, at), load(access, d, 2 * kFirst + 1, at));
    } else {
      return load(access, d, kFirst + kPairs, at);
    }
  }

  const Policy policy_;
  const Stored* sources_[kSources];
  Stored* const dst_;
  Stored* const dst2_;
};

// All of at least two vectors, as many as possible past the caches. The first and the last vector may overlap what lies
// between; they are computed before anything is stored, because a destination may be a source.
template <class D, class Combination>
HWY_INLINE void combine_streaming(const Combination& combination, D d, std::size_t head, std::size_t elements,
                                  bool both) {
  const std::size_t lanes = hn::Lanes(d);
  const auto first = combination.value(AllLanes{}, d, 0);
  const auto last = combination.value(AllLanes{}, d, elements - lanes);
  std::size_t at = head;
  for (; at < elements - lanes; at += lanes) {
    combination.stream(d, combination.value(AllLanes{}, d, at), at, both);
  }
  if (head > 0) combination.store(AllLanes{}, d, first, 0);
  if (at == elements - lanes) {
    combination.stream(d, last, at, both);
  } else {
    combination.store(AllLanes{}, d, last, elements - lanes);
  }
}

template <class Policy, int kSources>
void combine(const Pass& pass) {
  const Combination<Policy, kSources> combination(pass);
  const hn::ScalableTag<typename Policy::Lane> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t elements = pass.elements;
  if (pass.streams && elements >= 2 * lanes) {
    const std::size_t head = combination.unaligned_elements(lanes);
    const bool both = pass.streams_both && combination.aligned_alike(lanes);
    if (head < lanes) return combine_streaming(combination, d, head, elements, both);
  }
  if (elements >= lanes) {
    // The last vector overlaps the one before it. Computed first, it also is right when a destination is a source.
    const auto last = combination.value(AllLanes{}, d, elements - lanes);
    for (std::size_t at = 0; at < elements - lanes; at += lanes) {
      combination.store(AllLanes{}, d, combination.value(AllLanes{}, d, at), at);
    }
    combination.store(AllLanes{}, d, last, elements - lanes);
    return;
  }
#if HWY_MEM_OPS_MIGHT_FAULT
  const hn::CappedTag<typename Policy::Lane, 1> one;
  for (std::size_t at = 0; at < elements; ++at) {
    combination.store(AllLanes{}, one, combination.value(AllLanes{}, one, at), at);
  }
#else
  if (elements == 0) return;
  const FirstLanes access{elements};
  combination.store(access, d, combination.value(access, d, 0), 0);
#endif
}

template <class Policy, int... kSources>
constexpr KernelRow kernel_row(std::integer_sequence<int, kSources...>) {
  return {{nullptr, nullptr, combine<Policy, kSources + 2>...}};
}

// Kernels for 2..kMost sources.
template <class Policy, int kMost = kMaxFused>
inline constexpr KernelRow kKernels = kernel_row<Policy>(std::make_integer_sequence<int, kMost - 1>{});

// Kernels for 1..kMost sources.
template <class Policy, int kMost = kMaxFused>
inline constexpr KernelRow kKernelsFromOne = [] {
  KernelRow row = kKernels<Policy, kMost>;
  row.by_sources[1] = combine<Policy, 1>;
  return row;
}();

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // per instruction set
