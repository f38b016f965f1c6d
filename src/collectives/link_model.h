#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "topology/cpu_place.h"

// What was measured of a host when its ranks met; see communicator/distances.h for how.
namespace tutti {

// The links of one class between ranks of one host. Rates are in bytes a nanosecond; 0: not measured.
struct MeasuredLink {
  int links = 0;         // that there are, as far as they were looked at
  double hop_ns = 0;     // from a store to the load that sees it: the median
  double read_rate = 0;  // of lines that the other has just written
  double store_rate = 0;
  double stream_rate = 0;
};

// The same on all ranks of a communicator.
struct MeasuredHost {
  std::array<MeasuredLink, kLinkClasses> links;
  double line_ns = 0;    // an atomic change of a line in the own cache
  double copy_rate = 0;  // within the own cache
};

// For people: "near 57 ns, reads 12.3, stores 3.1, streams 9.8 bytes a ns (1 link)", class by class.
std::string describe(const MeasuredHost& host);

}  // namespace tutti
