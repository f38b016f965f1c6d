#pragma once

#include <cstdint>

namespace tutti {

// How the ranks of a communicator are placed, as plain numbers for generators on host and device. The arrays belong
// to whoever built the layout (see placement.h) and live as long as it is used.
//
// With one host the arrays may be null.
struct Layout {
  int ranks = 1;
  int rank = 0;
  int hosts = 1;
  const std::uint16_t* host_of = nullptr;     // [ranks] host of each rank; hosts are numbered by their lowest rank
  const std::uint16_t* by_host = nullptr;     // [ranks] ranks listed host by host, ascending within each
  const std::uint16_t* host_first = nullptr;  // [hosts+1] where each host's ranks begin in by_host
};

}  // namespace tutti
