#include <fmt/format.h>

#include "communicator/call_context.h"
#include "communicator/operation.h"

namespace tutti {

void CallContext::call_timed_out(const Operation& operation) const {
  const std::vector<int> awaited = operation.awaited();
  std::string missing = awaited.empty() ? std::string("its turn behind earlier calls of this rank") : std::string();
  for (const int peer : awaited) missing += (missing.empty() ? "" : ", ") + control().describe(peer);
  const std::string reason = fmt::format("{} on {} has not ended within {} ms: it waits for {}", operation.describe(),
                                         control().describe(rank()), operation.limit().count(), missing);
  const int peer = awaited.size() == 1 ? awaited.front() : Error::kNoPeer;
  if (health().fail(ErrorCode::kTimeout, reason, peer)) control().poison(ErrorCode::kTimeout, reason, peer);
}

}  // namespace tutti
