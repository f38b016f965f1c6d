#pragma once

#include "base/json.h"
#include "tutti/communicator.h"

namespace tutti {

// As one object; ranks that were never waited for and calls that were never made are left out.
void write_statistics(JsonWriter& json, const Statistics& statistics);

}  // namespace tutti
