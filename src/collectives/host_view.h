#pragma once

#include "schedule/layout.h"

// What hierarchical algorithms know of a rank's surroundings.
namespace tutti {

struct HostView {
  int host;
  int place;  // on the host
  int size;   // ranks of the host
  int hosts;
  int rails;  // ranks of the smallest host: these places exist everywhere

  TUTTI_HOST_DEVICE constexpr explicit HostView(const Layout& layout)
      : host(tutti::host_of(layout, layout.rank)),
        place(place_of(layout, layout.rank)),
        size(host_size(layout, host)),
        hosts(layout.hosts),
        rails(size) {
    for (int other = 0; other < hosts; ++other) {
      const int ranks = host_size(layout, other);
      if (ranks < rails) rails = ranks;
    }
  }

  // The host so many further on, in a circle. REQUIRES: -hosts <= distance <= hosts.
  TUTTI_HOST_DEVICE constexpr int host_at(int distance) const { return (host + distance + hosts) % hosts; }
  // Which place of a host speaks for a place of another host.
  TUTTI_HOST_DEVICE constexpr int carrier(int remote_place) const { return remote_place % rails; }
};

}  // namespace tutti
