#include "base/only_errors.h"
#include "communicator/durations.h"
#include "communicator/stream_engine.h"
#include "tutti/stream.h"

namespace tutti {

Stream Stream::within(std::chrono::milliseconds limit) const {
  check_duration(limit, "the limit of Stream::within()", "0 is the limit of the communicator");
  Stream stream = *this;
  stream.limit_ = limit;
  return stream;
}

HostStream::HostStream() : engine_(only_errors([] { return std::make_shared<detail::StreamEngine>(); })) {}
HostStream::~HostStream() { engine_->close(); }
void HostStream::synchronize() { engine_->synchronize(); }

}  // namespace tutti
