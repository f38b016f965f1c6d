#pragma once

#include "base/clock.h"
#include "base/config.h"
#include "bootstrap/event_loop.h"
#include "bootstrap/membership.h"
#include "bootstrap/root_server.h"
#include "tutti/error.h"

namespace tutti {

// This rank cannot take part in a meeting, because of a trouble of its own: those who wait for it get the reason at
// once, through the root. `own_root`: the root of this process, or null.
// Blocks until everybody has been told, for five seconds at most, and not beyond the deadline. Throws nothing: what
// this rank throws is the first cause.
void complain(EventLoop& loop, const Membership& membership, const Config& config, const Error& error,
              RootServer* own_root, Deadline deadline);

}  // namespace tutti
