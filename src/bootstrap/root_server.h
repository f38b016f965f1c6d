#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/net/address.h"
#include "bootstrap/membership.h"
#include "bootstrap/process.h"
#include "bootstrap/root.h"

namespace tutti {

// Keeps a Root alive on the control thread: made and destroyed by any other thread. Owned by a control plane of this
// process or, between UniqueId::create() and the first use of the id, by a table of this process.
class RootServer {
 public:
  RootServer(std::shared_ptr<Process> process, UniqueFd listening, Root::Place place,
             std::unique_ptr<Root::HandingOut> handing_out = nullptr);
  ~RootServer();

  // Where this process itself reaches it: at one of these. A socket for IPv6 and IPv4 may be reached by either alone.
  const std::vector<SocketAddress>& local() const { return local_; }

  // What the communicator is called, once this process knows.
  void rename(const std::string& name);
  // Ends the meeting with this reason.
  void refuse(const Poison& why);
  // The same for the control thread, whether the root is still there or not.
  std::function<void(const Poison& why)> refusal() const;
  // Blocks until so many ranks have been told why it failed, at most until the deadline.
  void wait_until_told(int ranks, Deadline deadline);

  // Opens the port that the membership names and serves it. When it is taken, tries again for a moment. Blocks. Throws
  // Error(kSystem).
  static std::unique_ptr<RootServer> open(std::shared_ptr<Process> process, const Membership& membership,
                                          const Config& config, Deadline deadline);

  // The root that UniqueId::create() opened in this process, for whoever asks first; null for others.
  static std::unique_ptr<RootServer> take_pending(const Nonce& nonce);
  static void put_pending(const Nonce& nonce, std::unique_ptr<RootServer> server);

 private:
  std::shared_ptr<Process> process_;  // shared with everybody who needs the control thread
  std::vector<SocketAddress> local_;
  std::shared_ptr<Root> root_;  // lives and dies on the control thread; shared with nobody, but watched by refusal()
};

// Listens on every address that the family allows, or only on the loopback interface.
UniqueFd listen_anywhere(Family family, bool loopback_only, std::uint16_t port);
// The same on a free port of TUTTI_PORTS, or on any; loopback has no firewall. Throws Error(kSystem) when all are
// taken.
UniqueFd listen_on_free_port(const Config& config, bool loopback_only);

// This host's addresses for others, best first; the one that shares a network with the root before the rest.
// Throws Error(kInvalidSetting) when the settings leave none.
std::vector<std::string> advertised_addresses(const Config& config, bool loopback_only,
                                              const SocketAddress* root = nullptr);

}  // namespace tutti
