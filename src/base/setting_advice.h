#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/net/interfaces.h"

namespace tutti {

// What is allowed, but hardly meant: one line each, for the log.

// Variables of an environment ("NAME=value" …, null at the end) that are named like settings and are none. Those of
// the tests are left out.
std::vector<std::string> unknown_settings(const char* const* environment);

// A directory in which nothing can be written; interfaces that do not exist.
std::vector<std::string> doubtful_settings(const Config& config, std::span<const InterfaceRecord> here);

// Logs both of the process's environment, once in a process. Throws nothing.
void warn_of_environment(const Config& environment);
// Logs the second. Throws nothing.
void warn_of_settings(const Config& config);

}  // namespace tutti
