#include "bootstrap/id_text.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>

#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::string_view kPrefix = "tutti1/";
constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
constexpr std::size_t kCheckBytes = 6;

std::string encode(std::span<const std::byte> bytes) {
  std::string text(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                    kVariant);
  text.pop_back();  // the terminator
  return text;
}

// Of exactly N bytes in the one spelling that encode() gives them.
template <std::size_t N>
bool decode(std::string_view text, std::array<std::byte, N>& out) {
  std::size_t length = 0;
  const int result = sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), N, text.data(), text.size(),
                                       nullptr, &length, nullptr, kVariant);
  return result == 0 && length == N && encode(out) == text;
}

// Finds texts that were cut or mistyped; authenticity comes from the handshake.
std::string check_of(std::string_view body) {
  return encode(std::span(Key::from_text(body).bytes()).first<kCheckBytes>());
}

Error bad_id(std::string_view why) {
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("this text is no unique id ({}); pass on exactly what to_text() gave", why));
}

std::string_view next_field(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return field;
}

}  // namespace

bool looks_like_id(std::string_view text) { return text.starts_with(kPrefix); }

std::string format_id(const IdParts& parts) {
  const std::string head = fmt::format("{}{}/{}/", kPrefix, encode(parts.nonce), encode(parts.secret.bytes()));
  std::string addresses;
  std::size_t count = 0;
  for (const HostPort& root : parts.roots) {
    const std::string address = root.text();
    const std::size_t total = head.size() + addresses.size() + address.size() + 2 + 2 * kCheckBytes;
    if (count == kMaxIdRoots || total > kMaxIdText) break;
    if (address.find_first_of("/, ") != std::string::npos) continue;  // an interface with an odd name
    if (count++ > 0) addresses += ',';
    addresses += address;
  }
  if (count == 0) throw Error(ErrorCode::kInvalidArgument, "a unique id needs at least one address of the root");
  const std::string body = head + addresses;
  return fmt::format("{}/{}", body, check_of(body));
}

IdParts parse_id(std::string_view text) {
  if (text.size() > kMaxIdText) throw bad_id(fmt::format("it has {} characters, at most {}", text.size(), kMaxIdText));
  if (!looks_like_id(text)) throw bad_id("it does not begin with \"tutti1/\"");
  const std::size_t last = text.rfind('/');
  if (check_of(text.substr(0, last)) != text.substr(last + 1)) throw bad_id("its check does not fit: cut or mistyped");
  std::string_view left = text.substr(0, last).substr(kPrefix.size());
  IdParts parts;
  std::array<std::byte, Key::kBytes> secret;
  if (!decode(next_field(left, '/'), parts.nonce)) throw bad_id("its nonce is malformed");
  if (!decode(next_field(left, '/'), secret)) throw bad_id("its secret is malformed");
  parts.secret = Key(secret);
  sodium_memzero(secret.data(), secret.size());
  while (!left.empty()) {
    if (parts.roots.size() == kMaxIdRoots) throw bad_id("it has too many addresses");
    parts.roots.push_back(HostPort::parse(next_field(left, ',')));
  }
  if (parts.roots.empty()) throw bad_id("it has no address");
  if (format_id(parts) != text) throw bad_id("its addresses are malformed");
  return parts;
}

}  // namespace tutti
