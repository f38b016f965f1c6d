#include "communicator/transfer_calls.h"

#include "communicator/arguments.h"
#include "communicator/group_calls.h"
#include "communicator/transfer_operation.h"

namespace tutti {
namespace {

// Until a blocking call has ended, however it ends.
class OutstandingCall {
 public:
  OutstandingCall(CallContext& context, const char* call) : context_(context) {
    if (!context.outstanding().enter()) throw context.closed_error(call);
  }
  ~OutstandingCall() { context_.outstanding().leave(); }

 private:
  CallContext& context_;
};

}  // namespace

TransferCalls::Received TransferCalls::run(const TransferRequest& request, std::chrono::milliseconds limit) {
  check(request);
  const OutstandingCall outstanding(context_, request.sending ? "send" : "recv");
  TransferOperation operation(*this, request, limit);
  if (context_.spin()) operation.look_longer();
  operation.issue();
  drive(operation, operation.progress());
  return {operation.source(), operation.received()};
}

Message TransferCalls::probe(int from, int tag) {
  const TransferRequest request{.peer = from, .tag = tag, .probing = true};
  check(request);
  const OutstandingCall outstanding(context_, "probe");
  TransferOperation operation(*this, request, {});
  operation.issue();
  drive(operation, operation.progress());
  return {operation.source(), tag, operation.received(), operation.type()};
}

std::optional<Message> TransferCalls::try_probe(int from, int tag) {
  const TransferRequest request{.peer = from, .tag = tag, .probing = true};
  check(request);
  const OutstandingCall outstanding(context_, "probe");
  TransferOperation operation(*this, request, {});
  operation.issue();
  const Progress progress = operation.glance();
  if (progress == Progress::kFailed) throw operation.error();
  if (progress == Progress::kAgain) return std::nullopt;
  return Message{operation.source(), tag, operation.received(), operation.type()};
}

std::unique_ptr<Operation> TransferCalls::prepare(const TransferRequest& request, std::chrono::milliseconds limit) {
  check(request);
  return std::make_unique<TransferOperation>(*this, request, limit);
}

void TransferCalls::check(const TransferRequest& request) const {
  const char* call = request.sending ? "send" : request.probing ? "probe" : "recv";
  if (request.probing && GroupCalls::current() != nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "probe in a group: the receives of the group are issued when it ends; probe before or after it");
  }
  context_.check_usable(call);
  const void* buffer = request.sending ? request.input : request.output;
  check_transfer({call, buffer, request.count, request.type, request.peer, !request.sending}, context_.ranks(),
                 context_.name());
}

void TransferCalls::count_into(Statistics& statistics) const {
  statistics.collectives["send"] = sends_.read();
  statistics.collectives["recv"] = receives_.read();
}

}  // namespace tutti
