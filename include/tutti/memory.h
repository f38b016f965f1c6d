#pragma once

#include <cstddef>

#include "tutti/export.h"

namespace tutti {

// Host memory that the other ranks of a host can read where it lies, so that collectives on it need no copy. Works
// before any communicator exists and for all of them. Aligned to 4096 bytes, zero-filled when new.
// Throws Error(kSystem) that says how much was asked for and what is available.
//
// Peers also write into it while a call has it as its output. After a call that failed or was aborted its contents are
// undefined, and may go on changing until the ranks that live have made a new communicator (shrink): put nothing new
// there before. Freeing it is fine at any time: it is not handed out again while a peer may write there.
TUTTI_API void* allocate(std::size_t bytes);
// REQUIRES: a pointer from allocate(), or null; no call that uses it is pending.
TUTTI_API void deallocate(void* pointer);

}  // namespace tutti
