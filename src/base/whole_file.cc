#include "base/whole_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/handles.h"
#include "base/held_signals.h"

namespace tutti {
namespace {

int write_all(int fd, std::string_view left) {
  while (!left.empty()) {
    const ssize_t written = ::write(fd, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

int write_whole_file(const std::string& directory, const std::string& name, std::string_view contents) {
  const HeldSignals held({SIGXFSZ});
  std::string temporary = directory + "/.tutti-XXXXXX";  // a name that nobody can have prepared
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return errno;
  int error = write_all(fd.get(), contents);
  if (error == 0 && ::rename(temporary.c_str(), (directory + "/" + name).c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error;
}

std::string file_name_part(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  std::string part;
  for (const char c : text.substr(0, kLongest)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       (c == '.' && !part.empty());
    part += plain ? c : '_';
  }
  return part.empty() ? "_" : part;
}

}  // namespace tutti
