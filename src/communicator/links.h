#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "communicator/setup.h"
#include "transport/endpoint.h"

namespace tutti {

// One way in which a rank is connected to peers. Made in set-up; used by it, and later by whichever thread first sends
// to a peer or receives from it.
class Link {
 public:
  virtual ~Link() = default;
  virtual bool reaches(int peer) const = 0;
  // Points an endpoint, whose peer is set, at what the two ranks share on a connection. Channels come first among the
  // connections, then those of point-to-point. REQUIRES: reaches(endpoint.peer). Throws Error(kSystem).
  virtual void connect(Endpoint& endpoint, std::uint32_t connection) = 0;
};

// A row of the registry of transports.
struct LinkRow {
  std::string_view name;
  // Null when this rank reaches nobody in this way. A transport that must be driven is added to parts.transports.
  std::unique_ptr<Link> (*open)(Session::Parts& parts);
};

// In order of preference: a peer is connected by the first row that reaches it.
std::span<const LinkRow> link_rows();

// The links that a communicator has, best first.
class Links {
 public:
  explicit Links(Session::Parts& parts);
  void connect(Endpoint& endpoint, std::uint32_t connection) const;

 private:
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace tutti
