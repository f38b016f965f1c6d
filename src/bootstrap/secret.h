#pragma once

#include <string_view>

#include "base/config.h"
#include "base/net/key.h"

namespace tutti {

// Where a job's secret came from.
enum class SecretOrigin {
  kSetting,          // TUTTI_SECRET
  kFile,             // TUTTI_SECRET_FILE
  kLauncher,         // the launcher's random key of this job
  kUnauthenticated,  // TUTTI_ALLOW_UNAUTHENTICATED=1: a key that everybody knows
  kNone,
};

struct FoundSecret {
  SecretOrigin origin = SecretOrigin::kNone;
  Key key;  // empty for kNone
};

// Looks in the order of SecretOrigin. `launcher_key`: the launcher's text, "" when it has none. Reads a file; does not
// log. Throws Error(kInvalidSetting) when a secret is too short, a file unreadable, or readable by others.
FoundSecret find_secret(const Config& config, std::string_view launcher_key);

}  // namespace tutti
