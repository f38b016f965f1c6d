#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

// The limit on the size of files (ulimit -f) holds for shared memory, too. Whoever may go beyond it holds SIGXFSZ
// (held_signals.h), which ends a process that does not expect it, and gets EFBIG alone.

// The largest file that this process may write, in bytes; nothing: there is no limit.
std::optional<std::uint64_t> file_size_limit();

// "files and shared memory of this process may have 65536 bytes: raise the limit (ulimit -f)" for EFBIG where there is
// a limit, else "".
std::string file_size_advice(int error);

}  // namespace tutti
