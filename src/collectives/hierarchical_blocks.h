#pragma once

#include "collectives/host_view.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// all_gather and reduce_scatter for several hosts: between two hosts, each block travels once, between its rank and
// the rank of the other host that speaks for it. Hosts meet at distance 1, 2, 3 …, with one message under way ahead.
namespace tutti {

struct HierarchicalAllGather {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    const HostView view(layout);
    return layout.ranks + view.hosts - 1 + (view.size > 1);
  }

  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const HostView view(layout);
    if (index == 0) return to_host(layout, view, 1);
    --index;
    if (view.size > 1) {
      if (index == 0) return readable(send(input(0), kHostPeers));
      --index;
    }
    if (index == 0) return copy(input(0), output(layout.rank));
    if (index < view.size) {
      const int peer = rank_at(layout, view.host, (view.place + index) % view.size);
      return receive(only(peer), output(peer));
    }
    index -= view.size;
    for (int distance = 1;; ++distance) {
      if (distance + 1 < view.hosts) {
        if (index == 0) return to_host(layout, view, distance + 1);
        --index;
      }
      const int host = view.host_at(-distance);
      const int size = host_size(layout, host);
      if (index < size) return from_host(layout, view, host, index);
      index -= size;
    }
  }

 private:
  TUTTI_HOST_DEVICE static constexpr Step to_host(const Layout& layout, const HostView& view, int distance) {
    const int carrier = rank_at(layout, view.host_at(distance), view.carrier(view.place));
    return readable(send(input(0), only(carrier)));
  }
  TUTTI_HOST_DEVICE static constexpr Step from_host(const Layout& layout, const HostView& view, int host, int place) {
    const int rank = rank_at(layout, host, place);
    const int carrier = view.carrier(place);
    if (carrier != view.place) return receive(only(rank_at(layout, view.host, carrier)), output(rank));
    if (view.size == 1) return receive(only(rank), output(rank));
    return readable(forward(only(rank), output(rank), kHostPeers));
  }
};

struct HierarchicalReduceScatter {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    const HostView view(layout);
    return layout.ranks - 1 + (view.size > 1) + view.hosts - 1;
  }

  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const HostView view(layout);
    if (index < view.size - 1) {
      const int peer = rank_at(layout, view.host, (view.place + index + 1) % view.size);
      return readable(contributing(send(input(peer), only(peer))));
    }
    index -= view.size - 1;
    if (view.size > 1) {
      if (index == 0) return contributing(reduce(input(layout.rank), kHostPeers, scratch(0)));
      --index;
    }
    for (int distance = 1;; ++distance) {
      if (distance < view.hosts) {
        const int host = view.host_at(distance);
        const int size = host_size(layout, host);
        if (index < size) return to_host(layout, view, host, index);
        index -= size;
      }
      if (distance == 1) continue;
      if (index == 0) return from_host(layout, view, distance - 1);
      --index;
    }
  }

 private:
  // This host's share of a remote block: combined by the rank that speaks for it.
  TUTTI_HOST_DEVICE static constexpr Step to_host(const Layout& layout, const HostView& view, int host, int place) {
    const int rank = rank_at(layout, host, place);
    const int carrier = view.carrier(place);
    if (carrier == view.place && view.size > 1) {
      return contributing(reduce_send(input(rank), kHostPeers, kNowhere, only(rank)));
    }
    const int to = carrier == view.place ? rank : rank_at(layout, view.host, carrier);
    return readable(contributing(send(input(rank), only(to))));
  }
  TUTTI_HOST_DEVICE static constexpr Step from_host(const Layout& layout, const HostView& view, int distance) {
    const bool raw = view.size == 1 && distance == 1;
    const bool final = distance == view.hosts - 1;
    const int carrier = rank_at(layout, view.host_at(-distance), view.carrier(view.place));
    const Step step = reduce(raw ? input(layout.rank) : scratch(0), only(carrier), final ? output(0) : scratch(0));
    return finishing(contributing(step, raw), final);
  }
};

}  // namespace tutti
