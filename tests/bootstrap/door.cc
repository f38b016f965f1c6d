#include "door.h"

#include <utility>

#include "base/net/handshake.h"
#include "bootstrap/sockets.h"

namespace tutti {

Credentials credentials() {
  return {.rank = 0, .ranks = 2, .communicator = communicator_name(random_nonce(), "job"), .secret = Key::random()};
}

SocketAddress address_of(const UniqueFd& listening) {
  return SocketAddress::loopback(Family::kIpv4, local_address(listening.get()).port());
}

Dialer::Outcome dial(EventLoop& loop, std::vector<SocketAddress> addresses, const Credentials& to,
                     std::chrono::milliseconds patience) {
  std::promise<Dialer::Outcome> outcome;
  loop.post([&] {
    Dialer::start(loop, std::move(addresses), {Purpose::kMeet, 1, 0, 2, to.communicator}, to.secret, patience,
                  [&](Dialer::Outcome result) { outcome.set_value(std::move(result)); });
  });
  return outcome.get_future().get();
}

Door::Door(EventLoop& loop, const Credentials& own, Challenge::Judge judge) : loop_(loop) {
  UniqueFd socket = listen_on(SocketAddress::loopback(Family::kIpv4, 0));
  address_ = address_of(socket);
  loop_.call([&] {
    listener_ = std::make_unique<Listener>(loop_, std::move(socket));
    listener_->admit(own, std::move(judge),
                     [this](const Hello&, ProvenSocket guest) { guests_.push_back(std::move(guest)); });
    listener_->when_exhausted([this](const std::string& trouble) { exhausted_.set_value(trouble); });
  });
}

Door::~Door() {
  loop_.call([&] { listener_.reset(); });
}

std::size_t Door::guests() {
  std::size_t count = 0;
  loop_.call([&] { count = guests_.size(); });
  return count;
}

}  // namespace tutti
