#include "collectives/traffic.h"

#include <algorithm>
#include <cmath>

namespace tutti {

Traffic::Traffic(const Layout& layout) : ranks(layout.ranks), hosts(layout.hosts), inside(layout.inside_host) {
  largest = smallest = host_size(layout, 0);
  for (int host = 0; host < layout.hosts; ++host) {
    const double size = host_size(layout, host);
    largest = std::max(largest, size);
    smallest = std::min(smallest, size);
    remote_pairs = std::max(remote_pairs, size * (ranks - size));
  }
  for (int rank = 1; rank < layout.ranks; ++rank) {
    if (host_of(layout, rank) < host_of(layout, rank - 1)) consecutive = false;
  }
  local_peers = largest - 1;
  remote_peers = ranks - smallest;
  if (!inside) return;
  remote_pairs = remote_peers;
  rail_share = 1 / smallest;
}

void Traffic::all_pairs(Cost& cost, double bytes) const {
  if (local_peers > 0) {
    cost.local.hops += 1;
    cost.local.messages += 2 * local_peers;
    cost.local.bytes += local_peers * bytes;
  }
  if (remote_peers > 0) {
    cost.remote.hops += 1;
    cost.remote.messages += 2 * remote_peers;
    cost.remote.bytes += remote_pairs * bytes;
  }
}

void Traffic::one_to_all(Cost& cost, double bytes) const {
  if (local_peers > 0) {
    cost.local.hops += 1;
    cost.local.messages += local_peers;
    cost.local.bytes += local_peers * bytes;
  }
  if (remote_peers > 0) {
    cost.remote.hops += 1;
    cost.remote.messages += remote_peers;
    cost.remote.bytes += remote_peers * bytes;
  }
}

void Traffic::along_ring(Cost& cost, double hops, double bytes) const {
  const double remote = hosts > 1 ? hops * hosts / ranks : 0;
  cost.remote.hops += remote;
  cost.local.hops += hops - remote;
  if (hosts > 1) {
    cost.remote.messages += largest > 1 ? hops : 2 * hops;  // at the border of a host, the other side is local
    cost.remote.bytes += bytes;
  }
  if (largest > 1) {
    cost.local.messages += hosts > 1 ? hops : 2 * hops;
    cost.local.bytes += bytes;
  }
}

void Traffic::shifted(Cost& cost, double distance, double bytes) const {
  if (hosts > 1) {
    cost.remote.hops += 1;
    cost.remote.messages += 2;
    cost.remote.bytes += (inside ? 1 : consecutive ? std::min(distance, largest) : largest) * bytes;
    return;
  }
  cost.local.hops += 1;
  cost.local.messages += 2;
  cost.local.bytes += bytes;
}

double Traffic::remote_levels(double levels) const {
  return hosts == 1 ? 0 : consecutive ? std::ceil(std::log2(hosts)) : levels;
}

}  // namespace tutti
