#include "tutti/unique_id.h"

#include "base/config.h"
#include "base/net/handshake.h"
#include "base/net/interfaces.h"
#include "base/only_errors.h"
#include "bootstrap/id_text.h"
#include "bootstrap/root_server.h"
#include "bootstrap/sockets.h"

namespace tutti {

namespace {

std::string make_id() {
  const Config config = Config::from_environment();
  IdParts parts;
  parts.nonce = random_nonce();
  parts.secret = Key::random();
  const std::vector<std::string> addresses = advertised_addresses(config, false);
  UniqueFd listening = listen_on_free_port(config, false);
  const std::uint16_t port = local_address(listening.get()).port();
  for (const std::string& address : addresses) {
    if (parts.roots.size() < kMaxIdRoots) parts.roots.push_back({address, port});
  }
  const Root::Place place{
      {0, 0, communicator_name(parts.nonce, ""), parts.secret}, "", false, config.duration(Setting::kStallWarning)};
  RootServer::put_pending(parts.nonce, std::make_unique<RootServer>(Process::get(), std::move(listening), place));
  return format_id(parts);
}

}  // namespace

UniqueId UniqueId::create() {
  return only_errors([] { return parse(make_id()); });
}

UniqueId UniqueId::parse(const std::string& text) {
  static_cast<void>(parse_id(text));
  UniqueId id;
  id.text_ = text;
  return id;
}

}  // namespace tutti
