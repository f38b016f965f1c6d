#include "communicator/links.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "transport/shm/shm_endpoint.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti {
namespace {

// Ranks that share the host's segment.
class SharedMemoryLink : public Link {
 public:
  SharedMemoryLink(const HostGroup& group, Sleepers& sleepers, int ranks)
      : group_(group), sleepers_(sleepers), area_of_(static_cast<std::size_t>(ranks), kNoArea) {
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      area_of_[static_cast<std::size_t>(group.members[i])] = group.areas[i];
    }
  }

  static std::unique_ptr<Link> open(Session::Parts& parts) {
    return std::make_unique<SharedMemoryLink>(*parts.group, *parts.sleepers, parts.layout.ranks);
  }

  bool reaches(int peer) const override { return area_of_[static_cast<std::size_t>(peer)] != kNoArea; }

  void connect(Endpoint& endpoint, std::uint32_t connection) override {
    const SegmentLayout& layout = group_.layout;
    const std::uint32_t area = area_of_[endpoint.peer];
    if (connection == layout.channels) {
      group_.segment.reserve(layout.area(group_.own_area) + layout.point_to_point(area), layout.point_to_point_bytes(),
                             "the flags of messages between two ranks");
    }
    connect_shared_memory(endpoint, layout, group_.segment.data(), connection, group_.own_area, area);
    endpoint.sleepers = &sleepers_;
    endpoint.asleep = &sleepers_.asleep();
  }

 private:
  static constexpr std::uint32_t kNoArea = ~std::uint32_t{0};

  const HostGroup& group_;
  Sleepers& sleepers_;
  std::vector<std::uint32_t> area_of_;  // by rank
};

// All others: connections are opened at first use.
class TcpLink : public Link {
 public:
  explicit TcpLink(TcpTransport& tcp) : tcp_(tcp) {}

  static std::unique_ptr<Link> open(Session::Parts& parts) {
    const SegmentLayout& memory = parts.group->layout;
    if (parts.group->members.size() == static_cast<std::size_t>(parts.layout.ranks)) return nullptr;
    TcpLimits limits;
    limits.channels = static_cast<int>(memory.connections());
    limits.window = memory.window;
    limits.max_message_bytes = static_cast<std::uint32_t>(memory.large_ring_bytes);
    limits.silence = std::min(limits.silence, parts.config.duration(Setting::kSilence));
    auto tcp = std::make_unique<TcpTransport>(
        parts.layout.rank, parts.layout.ranks, *parts.health,
        [control = parts.control.get()](int peer) { control->connect_data(peer); }, limits);
    parts.control->set_data_handler([tcp = tcp.get()](int peer, UniqueFd socket, bool initiated_here) {
      tcp->attach(peer, std::move(socket), initiated_here);
    });
    parts.control->set_data_waits([tcp = tcp.get()](int peer, bool waits) { tcp->await(peer, waits); });
    parts.control->set_data_watch([tcp = tcp.get()] { tcp->look_after_paths(); });
    auto link = std::make_unique<TcpLink>(*tcp);
    parts.transports.push_back(std::move(tcp));
    return link;
  }

  bool reaches(int) const override { return true; }
  void connect(Endpoint& endpoint, std::uint32_t) override { tcp_.add_endpoint(endpoint); }

 private:
  TcpTransport& tcp_;
};

constexpr std::array kRows = {
    LinkRow{"shm", SharedMemoryLink::open},
    LinkRow{"tcp", TcpLink::open},
};

}  // namespace

std::span<const LinkRow> link_rows() { return kRows; }

Links::Links(Session::Parts& parts) {
  for (const LinkRow& row : link_rows()) {
    if (auto link = row.open(parts)) links_.push_back(std::move(link));
  }
}

void Links::connect(Endpoint& endpoint, std::uint32_t connection) const {
  endpoint.channel = static_cast<std::uint8_t>(connection);
  for (const auto& link : links_) {
    if (link->reaches(endpoint.peer)) return link->connect(endpoint, connection);
  }
}

}  // namespace tutti
