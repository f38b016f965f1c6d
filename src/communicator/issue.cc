#include "communicator/issue.h"

#include <chrono>
#include <utility>

#include "communicator/group_calls.h"
#include "communicator/stream_engine.h"

namespace tutti {
namespace {

void check_stream(Stream stream) {
  if (GroupCalls::current() == nullptr || stream.engine() == nullptr) return;
  throw Error(ErrorCode::kInvalidArgument,
              "a call in a group names a stream: all calls of a group run on the group's, Group(stream)");
}

// The call's own, else that of its group.
std::chrono::milliseconds limit_of(Stream stream) {
  const GroupCalls* group = GroupCalls::current();
  return stream.limit().count() > 0 || group == nullptr ? stream.limit() : group->limit();
}

std::shared_ptr<detail::WorkState> work_on(Stream stream) {
  return std::make_shared<detail::WorkState>(stream.engine()->shared_from_this());
}

}  // namespace

Work issue_collective(const std::shared_ptr<Session>& session, const CollectiveArguments& arguments, Stream stream) {
  check_stream(stream);
  PendingCall call;
  call.home = session;
  call.operation = session->collectives().prepare(arguments, limit_of(stream));
  if (GroupCalls* group = GroupCalls::current()) return group->add_collective(std::move(call));
  const auto work = call.work = work_on(stream);
  Batch collectives, transfers;
  collectives.push_back(std::move(call));
  stream.engine()->issue(collectives, transfers, work, nullptr);
  return work->work();
}

Work issue_transfer(const std::shared_ptr<Session>& session, const TransferRequest& request, Stream stream) {
  check_stream(stream);
  PendingCall call;
  call.home = session;
  call.operation = session->transfers().prepare(request, limit_of(stream));
  if (GroupCalls* group = GroupCalls::current()) return group->add_transfer(std::move(call));
  const auto work = call.work = work_on(stream);
  Batch collectives, transfers;
  transfers.push_back(std::move(call));
  stream.engine()->issue(collectives, transfers, work, nullptr);
  return work->work();
}

}  // namespace tutti
