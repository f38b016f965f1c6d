#pragma once

#include <span>
#include <string>

#include "base/clock.h"
#include "base/config.h"
#include "base/net/address.h"
#include "bootstrap/challenge.h"
#include "bootstrap/event_loop.h"
#include "bootstrap/meeting_watch.h"
#include "bootstrap/membership.h"

namespace tutti {

struct ReachedRoot {
  ProvenSocket socket;
  SocketAddress address;
};

// Connects to the root: resolves its names and tries all its addresses, again and again until the deadline, since it
// may be started later. `watch`, if there is one, is told what it waits for. Blocks. Throws Error: kTimeout at the
// deadline; kUnauthorized or kMismatch when the root turns this rank away for good; kRemote when the root is gone and
// cannot come back. An id that can be read again is, after each attempt, and may be replaced in the membership. `own`:
// addresses of this process's root, tried instead of what the membership says; or none.
ReachedRoot reach_root(EventLoop& loop, Membership& membership, const Config& config,
                       std::span<const SocketAddress> own, Deadline deadline, MeetingWatch* watch = nullptr);

// Where rank 0 is looked for, for messages.
std::string root_text(const Membership& membership);

// Whether this rank can neither reach the root nor be it: the root's addresses are loopback addresses, and loopback is
// down.
bool is_cut_off(const Membership& membership, const Config& config);

}  // namespace tutti
