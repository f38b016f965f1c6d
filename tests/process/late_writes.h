#pragma once

#include <string>

#include "process/checks.h"
#include "tutti/tutti.h"

namespace tutti {

// The last rank loses its connections, and the others give it up; but it lives, and writes to all that it maps of their
// outputs after they have made a communicator without it, or have destroyed the old one. Nothing of that is seen in
// their buffers. They meet in `directory`. Throws std::runtime_error when something is wrong; the last rank exits.
void check_late_writes(Communicator& world, Memory memory, bool shrinks, const std::string& directory);

}  // namespace tutti
