#pragma once

#include "tutti/export.h"

// The version of these headers. The build takes its own from here.
#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

// For comparisons: #if TUTTI_VERSION >= TUTTI_MAKE_VERSION(0, 2, 0)
#define TUTTI_MAKE_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define TUTTI_VERSION TUTTI_MAKE_VERSION(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH)

namespace tutti {

// TUTTI_VERSION of the library that the program runs with, which may differ from that of its headers.
TUTTI_API int version() noexcept;

}  // namespace tutti
