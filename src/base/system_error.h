#pragma once

#include <string>
#include <string_view>

#include "tutti/error.h"

namespace tutti {

// "Connection refused (ECONNREFUSED)".
std::string errno_text(int error);

// What is said of a refused system call, as by system_error().
std::string system_trouble(std::string_view what, int error, std::string_view advice = {});

// Error(kSystem) for a refused system call: "cannot bind 10.0.0.1:4000: Address already in use (EADDRINUSE)", with
// `advice` after it when there is any.
Error system_error(std::string_view what, int error, std::string_view advice = {});

}  // namespace tutti
