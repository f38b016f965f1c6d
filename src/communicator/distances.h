#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "collectives/link_model.h"
#include "topology/cpu_place.h"
#include "transport/shm/link_probe.h"

namespace tutti {

// What the ranks of a communicator know about the distances between those that share memory: hwloc's picture,
// corrected by what they measured when they met. The same on all ranks, which choose from it. Immutable; any thread.
class Distances {
 public:
  // What one rank adds. Of a pair, the lower rank has the hop and the read rate, the other one the rest.
  struct Rank {
    int host = 0;  // equal where ranks share memory
    CpuPlace place;
    ProbedCore core;
    std::vector<ProbedLink> links;  // ProbedLink::member is a rank of the communicator
  };

  // Nothing is known, and nothing can be told of any rank.
  Distances() = default;
  explicit Distances(std::vector<Rank> ranks);

  // The same of some of the ranks, in the order in which they are named.
  Distances among(std::span<const int> members) const;

  // Between two ranks of one host, measured; 0: it was not.
  double hop_ns(int a, int b) const;
  // Measured distance decides whether a link is near, hwloc how far it is otherwise. Nothing: neither says anything.
  std::optional<LinkClass> link_class(int a, int b) const;
  const MeasuredHost& measured() const { return measured_; }

  // Groups of ranks that are closer to each other than to the rest.
  struct Grouping {
    std::vector<int> group_of;            // by rank; empty: there is nothing to group
    LinkClass within = LinkClass::kNear;  // the slowest class inside a group
  };
  // The ranks of each NUMA node, or else of each cache, where hwloc knows of every rank where it is, there are several
  // such groups and one of them has several ranks. Only of communicators on one host.
  Grouping grouping() const;
  const std::vector<Rank>& ranks() const { return ranks_; }

 private:
  std::optional<LinkClass> corrected(const CpuPlace& a, const CpuPlace& b, double hop_ns) const;
  LinkClass slowest_within(int CpuPlace::*kind) const;
  void measure();

  std::vector<Rank> ranks_;
  MeasuredHost measured_;
};

// How a rank tells the others what it has measured; bounded by kMostMeasurementBytes.
std::vector<std::byte> encode_measurements(const LinkProbeResult& result, std::span<const int> members);
// Adds to a rank what it says. Throws Error(kMismatch) where that cannot be.
void decode_measurements(std::span<const std::byte> bytes, int ranks, Distances::Rank& rank);

// The pairs whose rates are measured: for each class of links that hwloc tells of, the first pair of members.
std::vector<std::pair<std::uint32_t, std::uint32_t>> rated_pairs(std::span<const CpuPlace> places);

}  // namespace tutti
