#pragma once

#include "collectives/host_view.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// Three levels: combine slices inside each host, combine each slice across hosts along its rail by two_shot, hand the
// results out inside each host. Each host sends and receives about twice the data, however many ranks it has.
namespace tutti {

// Slice l belongs to the l-th rank of every host, for as many ranks as the smallest host has; it has a chunk per host.
struct HierarchicalAllReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    const HostView view(layout);
    const int others = other_slices(view);
    return view.place < view.rails ? 2 * others + 2 * (view.size > 1) + 2 * view.hosts - 1 : 2 * others;
  }

  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const HostView view(layout);
    const int others = other_slices(view);
    if (index < others) {
      const int slice = other_slice(view, index);
      const PeerSet owner = only(rank_at(layout, view.host, slice));
      return readable(contributing(send(input(slice * view.hosts), owner, view.hosts)));
    }
    index -= others;
    if (view.place < view.rails) {
      const int across = 2 * view.hosts - 1;
      const int mine = view.place * view.hosts;
      if (view.size > 1) {
        if (index == 0) return contributing(reduce(input(mine), kHostPeers, output(mine), view.hosts));
        --index;
      }
      if (index < across) return along_rail(layout, view, index);
      index -= across;
      if (view.size > 1) {
        if (index == 0) return readable(send(output(mine), kHostPeers, view.hosts));
        --index;
      }
    }
    const int slice = other_slice(view, index);
    return receive(only(rank_at(layout, view.host, slice)), output(slice * view.hosts), view.hosts);
  }

 private:
  TUTTI_HOST_DEVICE static constexpr int other_slices(const HostView& view) {
    return view.place < view.rails ? view.rails - 1 : view.rails;
  }
  TUTTI_HOST_DEVICE static constexpr int other_slice(const HostView& view, int index) {
    return (view.place < view.rails ? view.place + 1 + index : view.place + index) % view.rails;
  }

  TUTTI_HOST_DEVICE static constexpr Step along_rail(const Layout& layout, const HostView& view, int index) {
    const bool raw = view.size == 1;
    const int first = view.place * view.hosts;
    if (index == view.hosts - 1) {
      const int own = first + view.host;
      const Step step = reduce_send(raw ? input(own) : output(own), kRailPeers, output(own), kRailPeers);
      return readable(finishing(contributing(step, raw)));
    }
    const int host = view.host_at(index < view.hosts - 1 ? index + 1 : index - view.hosts + 1);
    const PeerSet peer = only(rank_at(layout, host, view.place));
    const int chunk = first + host;
    if (index >= view.hosts) return receive(peer, output(chunk));
    return readable(contributing(send(raw ? input(chunk) : output(chunk), peer), raw));
  }
};

}  // namespace tutti
