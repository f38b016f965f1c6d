#pragma once

#include <cstddef>

#include "reduce/store_kind.h"

namespace tutti {

// Copies bytes that do not overlap, written in one way or the other. Any thread; never blocks, never allocates; touches
// nothing outside of the two places.
void copy_bytes(void* to, const void* from, std::size_t bytes, StoreKind stores);

}  // namespace tutti
