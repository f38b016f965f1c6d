#include "communicator/durations.h"

#include <fmt/format.h>

#include "tutti/error.h"

namespace tutti {

void check_duration(std::chrono::milliseconds duration, const char* what, const char* otherwise) {
  if (duration.count() >= 0) return;
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is negative ({} ms): a time of 0 ms or more is meant; {}",
                                                       what, duration.count(), otherwise));
}

}  // namespace tutti
