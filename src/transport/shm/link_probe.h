#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "transport/shm/segment_layout.h"

namespace tutti {

// Measures how far the ranks of one host are from each other, once, before a communicator is used: pairs of ranks play
// with a line. Every rank of the host calls probe_links() at about the same time, in the thread in which it sets up; it
// spins, allocates, and returns within a few milliseconds whatever the others do. Only where every rank has a hardware
// thread.
//
// It plays with the payload of lines that carry no message yet, and with small slot rings. REQUIRES: nobody sends
// anything on this segment before all have returned.

// What one rank found out about one other. 0: not measured.
struct ProbedLink {
  std::uint32_t member = 0;  // place among the host's ranks
  double hop_ns = 0;         // from a store here to the load there
  // Bytes a nanosecond: reading lines that the other has just written; storing into lines that the other has just
  // read; the same with stores that go around the caches.
  double read_rate = 0;
  double store_rate = 0;
  double stream_rate = 0;
};

struct ProbedCore {
  double line_ns = 0;    // an atomic change of a line in the own cache
  double copy_rate = 0;  // bytes a nanosecond, within the own cache
};

struct LinkProbeRequest {
  const SegmentLayout* layout = nullptr;
  std::byte* segment = nullptr;
  std::span<const std::uint32_t> areas;                            // of every rank of the host
  std::uint32_t own = 0;                                           // this rank's place among them
  std::span<const std::pair<std::uint32_t, std::uint32_t>> rated;  // pairs whose rates are measured, lower first
  std::function<bool()> given_up;                                  // whether the communicator has failed
};

struct LinkProbeResult {
  ProbedCore core;
  std::vector<ProbedLink> links;  // of a pair, the lower place has the hop and the read rate, the other the rest
};

LinkProbeResult probe_links(const LinkProbeRequest& request);

// Who plays with whom: in each round every member has at most one partner, and over all rounds everyone meets everyone
// once (the circle method). More rounds than `most` are left out.
int probe_rounds(std::uint32_t members, int most);
// Of a member in a round; the member itself where it pauses.
std::uint32_t probe_partner(std::uint32_t members, int round, std::uint32_t member);

}  // namespace tutti
