#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "communicator/call_context.h"
#include "communicator/call_counter.h"
#include "communicator/operation.h"
#include "executor/point_to_point.h"
#include "tutti/communicator.h"

namespace tutti {

// A send or a receive as the caller passed it.
struct TransferRequest {
  bool sending = false;
  const std::byte* input = nullptr;  // of a send
  std::byte* output = nullptr;       // of a receive
  std::size_t count = 0;
  DataType type = DataType::kU8;
  int peer = 0;  // of a receive also kAnySource
  int tag = 0;
  bool probing = false;  // a receive that takes nothing
};

// The sends and receives of a communicator on one rank, which stand beside the order of its collectives. Owned by the
// Session.
class TransferCalls {
 public:
  TransferCalls(CallContext& context, PointToPoint& point_to_point)
      : context_(context), point_to_point_(point_to_point) {}

  // What came.
  struct Received {
    int source = -1;
    std::size_t count = 0;
  };
  // Blocks until the message is taken, or is there. Throws Error.
  Received run(const TransferRequest& request, std::chrono::milliseconds limit);
  // What the next receive would take, when it is there; or whether it is. Throw Error.
  Message probe(int from, int tag);
  std::optional<Message> try_probe(int from, int tag);
  // Checks the arguments, then makes a call that is not issued yet. Throws Error(kInvalidArgument).
  std::unique_ptr<Operation> prepare(const TransferRequest& request, std::chrono::milliseconds limit);

  void count_into(Statistics& statistics) const;

 private:
  friend class TransferOperation;

  void check(const TransferRequest& request) const;

  CallContext& context_;
  PointToPoint& point_to_point_;
  CallCounter sends_;
  CallCounter receives_;
};

}  // namespace tutti
