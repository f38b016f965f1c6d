#pragma once

#include <optional>
#include <string_view>

#include "base/log.h"

namespace tutti {

// "warn", or one of NCCL's words for TUTTI_DEBUG and NCCL_DEBUG: NONE, VERSION, WARN, INFO, ABORT, TRACE. Case does not
// matter.
std::optional<LogLevel> parse_log_level(std::string_view text);

}  // namespace tutti
