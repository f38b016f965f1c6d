#include "tutti/error.h"

#include <fmt/format.h>
#include <string.h>

#include "base/system_error.h"

namespace tutti {

const char* name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kInvalidSetting:
      return "invalid setting";
    case ErrorCode::kMismatch:
      return "mismatch";
    case ErrorCode::kUnauthorized:
      return "unauthorized";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kRemote:
      return "remote failure";
    case ErrorCode::kAborted:
      return "aborted";
    case ErrorCode::kSystem:
      return "system error";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kCallback:
      return "callback failed";
  }
  return "unknown error";
}

std::string errno_text(int error) {
  // The descriptive and the short name: one for people, one for searching. Neither touches shared state.
  const char* text = strerrordesc_np(error);
  const char* symbol = strerrorname_np(error);
  if (text == nullptr || symbol == nullptr) return fmt::format("error {}", error);
  return fmt::format("{} ({})", text, symbol);
}

std::string system_trouble(std::string_view what, int error, std::string_view advice) {
  std::string message = fmt::format("{}: {}", what, errno_text(error));
  if (!advice.empty()) message += fmt::format("; {}", advice);
  return message;
}

Error system_error(std::string_view what, int error, std::string_view advice) {
  return Error(ErrorCode::kSystem, system_trouble(what, error, advice));
}

}  // namespace tutti
