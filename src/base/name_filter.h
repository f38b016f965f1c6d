#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// A list of names in NCCL's syntax, for network interfaces and RDMA devices: "eth,ib0" matches by prefix, "=eth0,eth1"
// exactly, "^docker,lo" and "^=eth1" everything but these. Blanks around items and empty items are ignored; an empty
// list matches everything.
class NameFilter {
 public:
  explicit NameFilter(std::string_view list);
  bool matches(std::string_view name) const;
  // Position of the first item that matches, for preference order; items() when none does or the list excludes.
  std::size_t position(std::string_view name) const;
  std::size_t items() const { return names_.size(); }

 private:
  std::size_t find(std::string_view name) const;

  std::vector<std::string> names_;
  bool exclude_ = false;
  bool exact_ = false;
};

}  // namespace tutti
