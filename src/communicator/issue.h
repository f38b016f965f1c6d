#pragma once

#include <memory>

#include "communicator/session.h"
#include "tutti/stream.h"
#include "tutti/work.h"

namespace tutti {

// Calls that do not run in their function: on a stream, or in the group of the calling thread. They check the arguments
// and throw Error like blocking calls; what happens later is in the Work.
Work issue_collective(const std::shared_ptr<Session>& session, const CollectiveArguments& arguments, Stream stream);
Work issue_transfer(const std::shared_ptr<Session>& session, const TransferRequest& request, Stream stream);

}  // namespace tutti
