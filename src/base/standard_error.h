#pragma once

#include <string_view>

namespace tutti {

// Writes text to standard error, which belongs to the program and may be anything: a terminal, a file, a pipe that
// nobody empties or whose reader is gone, a socket, closed. Waits for a reader for some milliseconds at most, changes
// no flag that other processes see, and causes no signal. Returns whether all was written. Any thread, also in a forked
// child.
bool write_to_standard_error(std::string_view text);

}  // namespace tutti
