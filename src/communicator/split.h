#pragma once

#include <memory>

#include "communicator/session.h"
#include "tutti/communicator.h"

namespace tutti {

// Makes a communicator out of the ranks of `parent` that name the same colour; null for a negative one. Collective over
// the parent, in its order of calls; blocks until the members are ready. See Communicator::split(). Throws Error.
std::unique_ptr<Session> split_session(Session& parent, int color, int key, const Options& options);

}  // namespace tutti
