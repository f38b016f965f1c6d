#include "bootstrap/host.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace tutti {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string host_identity(const Config& config) {
  if (config.given(Setting::kHostId)) return config.text(Setting::kHostId).substr(0, 256);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return (boot + " " + host_name()).substr(0, 256);
}

}  // namespace tutti
