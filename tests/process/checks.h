#pragma once

#include <cstddef>

#include "schedule/algorithm.h"
#include "tutti/tutti.h"

namespace tutti {

// Where buffers lie.
enum class Memory { kPrivate, kLibrary, kRegistered };    // kRegistered: a vector's, begun amid a page
inline constexpr std::size_t kShortestRegistered = 8192;  // bytes: a whole page lies in it, wherever it begins

// Calls every collective, and a ring of sends and receives, with sizes up to `largest` elements a block and every kind
// of root, and compares each element with a reference. Throws std::runtime_error at the first wrong
// element.
void check_collectives(Communicator& world, std::size_t largest, Memory memory);

// One of them. Collective.
void check_collective(Communicator& world, Collective collective, std::size_t count, int root, Memory memory);

// Everybody sends to the next rank; even ranks send first.
void check_ring(Communicator& world, std::size_t count, Memory memory);

// One all_reduce in place of `count` elements at `data`, whose inputs depend on `seed`.
void check_all_reduce(Communicator& world, float* data, std::size_t count, int seed);

}  // namespace tutti
