#pragma once

#include <cstdint>
#include <vector>

#include "schedule/layout.h"

namespace tutti {

// Owns the arrays behind layouts: which rank is on which host. Immutable; its layouts may be used by any thread, as
// long as it lives.
class Placement {
 public:
  // All ranks on one host.
  explicit Placement(int ranks);
  // host_of: any value per rank; ranks with equal values share a host. Hosts are numbered by their lowest rank.
  explicit Placement(const std::vector<int>& host_of);

  Placement(Placement&&) = default;
  Placement& operator=(Placement&&) = default;

  int ranks() const { return ranks_; }
  int hosts() const { return hosts_; }
  // What rank `rank` sees.
  Layout layout(int rank) const;

 private:
  int ranks_;
  int hosts_;
  std::vector<std::uint16_t> host_of_;
  std::vector<std::uint16_t> by_host_;
  std::vector<std::uint16_t> host_first_;
};

// Consecutive ranks on hosts of equal size; the first hosts have one more where it does not come out even.
Placement even_placement(int ranks, int hosts);

}  // namespace tutti
