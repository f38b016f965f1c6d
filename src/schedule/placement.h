#pragma once

#include <cstdint>
#include <vector>

#include "schedule/layout.h"

namespace tutti {

// Owns the arrays behind layouts: which rank is on which host, and in which group of it. Immutable; its layouts may be
// used by any thread, as long as it lives.
class Placement {
 public:
  // All ranks on one host.
  explicit Placement(int ranks);
  // host_of: any value per rank; ranks with equal values share a host. Hosts are numbered by their lowest rank.
  explicit Placement(const std::vector<int>& host_of);
  // group_of: any value per rank; ranks of one host with equal values are a group. Counts only where there is one host.
  // Empty: no groups.
  Placement(const std::vector<int>& host_of, const std::vector<int>& group_of);

  Placement(Placement&&) = default;
  Placement& operator=(Placement&&) = default;

  int ranks() const { return ranks_; }
  int hosts() const { return hosts_.count; }
  int groups() const { return groups_.count; }  // 1: none
  // What rank `rank` sees.
  Layout layout(int rank) const;

 private:
  // Ranks in parts, which are numbered by their lowest rank.
  struct Parts {
    explicit Parts(const std::vector<int>& part_of);

    int count = 0;
    std::vector<std::uint16_t> of;     // by rank
    std::vector<std::uint16_t> ranks;  // part by part
    std::vector<std::uint16_t> first;  // where each part begins in `ranks`
  };
  int ranks_;
  Parts hosts_;
  Parts groups_;
};

// Consecutive ranks on hosts of equal size; the first hosts have one more where it does not come out even.
Placement even_placement(int ranks, int hosts);
// The same of groups on one host.
Placement grouped_placement(int ranks, int groups);

}  // namespace tutti
