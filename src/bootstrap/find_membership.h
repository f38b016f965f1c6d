#pragma once

#include <span>

#include "base/config.h"
#include "base/net/interfaces.h"
#include "bootstrap/launcher.h"
#include "bootstrap/membership.h"

namespace tutti {

// membership_from_environment() with its surroundings given: variables and this host's interfaces. Resolves host names
// only to find out whether rank 0 can be on this host.
Membership find_membership(const Config& config, const Environment& environment, std::span<const InterfaceRecord> here);

}  // namespace tutti
