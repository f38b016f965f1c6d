#include "communicator/callback.h"

#include <exception>
#include <string>
#include <utility>

#include "base/log.h"
#include "communicator/group_calls.h"

namespace tutti::detail {

std::optional<Error> run_callback(Work::Callback callback, const Work& work) {
  const GroupCalls::Outside outside;
  std::optional<Error> thrown;
  try {
    std::exchange(callback, nullptr)(work);
    return thrown;
  } catch (const Error& error) {
    thrown.emplace(error.code(), std::string("a callback threw: ") + error.what(), error.peer());
  } catch (const std::exception& error) {
    thrown.emplace(ErrorCode::kCallback, std::string("a callback threw: ") + error.what());
  } catch (...) {
    thrown.emplace(ErrorCode::kCallback, "a callback threw something that is no std::exception");
  }
  log_warn("{}", thrown->what());
  return thrown;
}

}  // namespace tutti::detail
