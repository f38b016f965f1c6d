#pragma once

#include <cstddef>

#include "tutti/export.h"

namespace tutti {

// Host memory that the other ranks of a host can read where it lies, so that collectives on it need no copy. Works
// before any communicator exists and for all of them. Aligned to 4096 bytes, zero-filled when new.
// Throws Error(kSystem) that says how much was asked for and what is available.
TUTTI_API void* allocate(std::size_t bytes);
// REQUIRES: a pointer from allocate(), or null; no call that uses it is pending.
TUTTI_API void deallocate(void* pointer);

}  // namespace tutti
