#include "tutti/version.h"

namespace tutti {

int version() noexcept { return TUTTI_VERSION; }

}  // namespace tutti
