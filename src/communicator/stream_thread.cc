#include "communicator/stream_thread.h"

#include <signal.h>

#include <exception>
#include <string>
#include <utility>

#include "tutti/error.h"

namespace tutti::detail {
namespace {

// A thread begins with the signal mask of the one that starts it.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_stream_thread(const char* what, std::function<void()> body) {
  const AllSignalsBlocked blocked;
  try {
    return std::thread(std::move(body));
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kSystem, std::string("cannot start a stream's ") + what + ": " + error.what() +
                                        "; raise the limit of processes (ulimit -u), or use fewer streams");
  }
}

}  // namespace tutti::detail
