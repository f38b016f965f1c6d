#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/address.h"
#include "base/net/key.h"

namespace tutti {

// What the text of a unique id says.
struct IdParts {
  Nonce nonce{};
  Key secret;
  std::vector<HostPort> roots;  // numeric addresses of the root, best first; at least one
};

inline constexpr std::size_t kMaxIdText = 1024;
inline constexpr std::size_t kMaxIdRoots = 12;

// "tutti1/nonce/secret/address,address/check". Addresses beyond what fits in kMaxIdText are left out.
// Throws Error(kInvalidArgument) without any address.
std::string format_id(const IdParts& parts);

// Throws Error(kInvalidArgument) on anything that format_id() did not write; the message never quotes the secret.
IdParts parse_id(std::string_view text);

// Whether a text means to be an id rather than host:port.
bool looks_like_id(std::string_view text);

}  // namespace tutti
