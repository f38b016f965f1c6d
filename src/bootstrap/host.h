#pragma once

#include <string>

#include "base/config.h"

namespace tutti {

// This host's full name.
std::string host_name();

// What ranks of one host have in common: TUTTI_HOSTID when it is given, else the kernel's boot id and the host's name.
// A hint only: that memory can really be shared is proved by opening it.
std::string host_identity(const Config& config);

}  // namespace tutti
