#pragma once

#include <exception>
#include <utility>

#include "tutti/error.h"

namespace tutti {

// An exception as the Error that callers are promised: itself, or kSystem. std::bad_alloc says what limits the memory.
Error as_error(const std::exception& exception);

// Runs `work`. Whatever it throws comes out as an Error.
template <class Work>
decltype(auto) only_errors(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& exception) {
    throw as_error(exception);
  }
}

}  // namespace tutti
