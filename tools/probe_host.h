#pragma once

#include "collectives/link_model.h"

namespace tutti {

// What the ranks of a communicator on this host would measure when they meet: `ranks` threads play it. Nothing where
// they have no hardware thread each. Blocks for a few milliseconds.
MeasuredHost probe_host(int ranks);

}  // namespace tutti
