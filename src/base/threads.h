#pragma once

#include <functional>
#include <string>
#include <thread>

namespace tutti {

// The one place where the library starts threads. The thread gets no signals (blocked_signals.h), and computes in the
// default floating-point mode, not in that of the calling thread; the mask of the
// calling thread is the same afterwards, however this ends. `name`: for debuggers, at most 15 characters. `purpose`
// names the thread in the error: "that waits for the other ranks". Throws Error(kSystem), which says which limits there
// are.
std::thread start_thread(const char* name, const std::string& purpose, std::function<void()> work);

// What to say of a thread that the system refused with this errno.
std::string thread_trouble(const std::string& purpose, int error);

}  // namespace tutti
