#include "bootstrap/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/handles.h"
#include "base/system_error.h"
#include "base/text.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::size_t kShortest = 16;
constexpr std::size_t kLongestFile = 4096;

Key key_of(std::string_view text, std::string_view origin) {
  text = trimmed(text);
  if (text.size() < kShortest) {
    throw Error(
        ErrorCode::kInvalidSetting,
        fmt::format("{} has {} characters, at least {} are needed; \"head -c 32 /dev/urandom | base64\" makes a "
                    "good secret",
                    origin, text.size(), kShortest));
  }
  return Key::from_text(text);
}

Key read_file(const std::string& path) {
  const auto refuse = [&path](std::string_view why) {
    return Error(ErrorCode::kInvalidSetting, fmt::format("TUTTI_SECRET_FILE={} {}", path, why));
  };
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) throw refuse(fmt::format("cannot be opened: {}", errno_text(errno)));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw refuse(fmt::format("cannot be examined: {}", errno_text(errno)));
  if (!S_ISREG(status.st_mode)) throw refuse("is no regular file");
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    throw refuse(fmt::format("belongs to user {}, not to this one ({})", status.st_uid, ::geteuid()));
  }
  if ((status.st_mode & 077) != 0) {
    throw refuse(fmt::format("has mode {:04o}: others could read the secret; chmod 0600 it", status.st_mode & 07777));
  }
  std::array<char, kLongestFile> buffer;
  std::size_t size = 0;
  while (size < buffer.size()) {
    const ssize_t count = ::read(file.get(), buffer.data() + size, buffer.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw refuse(fmt::format("cannot be read: {}", errno_text(errno)));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size == buffer.size()) throw refuse(fmt::format("is longer than {} bytes: is it the right file?", kLongestFile));
  const Key key = key_of({buffer.data(), size}, fmt::format("TUTTI_SECRET_FILE={}", path));
  sodium_memzero(buffer.data(), buffer.size());
  return key;
}

}  // namespace

FoundSecret find_secret(const Config& config, std::string_view launcher_key) {
  if (config.given(Setting::kSecret)) {
    return {SecretOrigin::kSetting, key_of(config.text(Setting::kSecret), "TUTTI_SECRET")};
  }
  if (config.given(Setting::kSecretFile)) return {SecretOrigin::kFile, read_file(config.text(Setting::kSecretFile))};
  if (!launcher_key.empty()) return {SecretOrigin::kLauncher, key_of(launcher_key, "the launcher's key")};
  if (config.flag(Setting::kAllowUnauthenticated)) {
    return {SecretOrigin::kUnauthenticated, Key::from_text("unauthenticated: everybody knows this key")};
  }
  return {};
}

}  // namespace tutti
