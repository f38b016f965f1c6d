#include "communicator/stream_engine.h"
#include "tutti/stream.h"

namespace tutti {

HostStream::HostStream() : engine_(std::make_shared<detail::StreamEngine>()) {}
HostStream::~HostStream() { engine_->close(); }
void HostStream::synchronize() { engine_->synchronize(); }

}  // namespace tutti
