#pragma once

#include <functional>
#include <thread>

namespace tutti::detail {

// A thread of a stream, which takes no signals: those are for the program's threads. what: "thread", as messages name
// it. Throws Error(kSystem) when it cannot be started.
std::thread start_stream_thread(const char* what, std::function<void()> body);

}  // namespace tutti::detail
