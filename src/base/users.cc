#include "base/users.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace tutti {
namespace {

constexpr uid_t kUsualOverflow = 65534;
constexpr std::uint64_t kEverybody = 0xFFFFFFFF;

uid_t overflow_user() {
  uid_t user = kUsualOverflow;
  std::ifstream("/proc/sys/kernel/overflowuid") >> user;
  return user;
}

// Not so in a namespace that has a number for everybody: there the overflow user is a user like others.
bool strangers_have_no_number() {
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  std::ifstream map("/proc/self/uid_map");
  return !(map >> inside >> outside >> count) || count < kEverybody;
}

}  // namespace

bool may_be_anybody(uid_t user) { return user == overflow_user() && strangers_have_no_number(); }

bool is_this_user(uid_t user) { return user == ::geteuid() && !may_be_anybody(user); }

}  // namespace tutti
