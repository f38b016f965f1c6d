#include "reduce/integer_division.h"

#include <cstdint>
#include <type_traits>

namespace tutti {
namespace {

template <class T>
void divide(void* data, std::size_t elements, int divisor) {
  using Wide = std::conditional_t<sizeof(T) < 8, double, T>;
  T* values = static_cast<T*>(data);
  const Wide by = static_cast<Wide>(divisor);
  // Up to 32 bits a double's quotient truncates to the exact one, and processors divide doubles in vectors.
  for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<T>(static_cast<Wide>(values[i]) / by);
}

}  // namespace

IntegerDivision integer_division(DataType type) {
  switch (type) {
    case DataType::kI8:
      return divide<std::int8_t>;
    case DataType::kU8:
      return divide<std::uint8_t>;
    case DataType::kI16:
      return divide<std::int16_t>;
    case DataType::kU16:
      return divide<std::uint16_t>;
    case DataType::kI32:
      return divide<std::int32_t>;
    case DataType::kU32:
      return divide<std::uint32_t>;
    case DataType::kI64:
      return divide<std::int64_t>;
    default:
      return divide<std::uint64_t>;
  }
}

}  // namespace tutti
