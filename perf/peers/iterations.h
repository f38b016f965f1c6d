#pragma once

#include <cstddef>

namespace tutti::perf::peers {

// How often everything that is measured beside Tutti calls for one size. Tutti's own programs call as often as fits in
// a tenth of a second, at least 12 times.
inline int iterations(std::size_t bytes) {
  if (bytes <= 4096) return 2000;
  if (bytes <= 262144) return 500;
  return bytes <= 4194304 ? 80 : 12;
}

}  // namespace tutti::perf::peers
