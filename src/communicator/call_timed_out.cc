#include <fmt/format.h>

#include "communicator/call_context.h"
#include "communicator/operation.h"

namespace tutti {

void CallContext::call_timed_out(const Operation& operation) const {
  if (ranks() > 1) return stalls_.time_out(&operation, operation.describe(), operation.limit());
  // There is nobody to ask.
  health().fail(ErrorCode::kTimeout, fmt::format("{} has not ended within {} ms: it waits for this rank itself",
                                                 operation.describe(), operation.limit().count()));
}

}  // namespace tutti
