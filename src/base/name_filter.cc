#include "base/name_filter.h"

#include <algorithm>

#include "base/text.h"

namespace tutti {

NameFilter::NameFilter(std::string_view list) {
  list = trimmed(list);
  if (list.starts_with('^')) {
    exclude_ = true;
    list = trimmed(list.substr(1));
  }
  if (list.starts_with('=')) {
    exact_ = true;
    list.remove_prefix(1);
  }
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view item = trimmed(list.substr(0, comma));
    if (!item.empty()) names_.emplace_back(item);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

bool NameFilter::matches(std::string_view name) const {
  if (names_.empty()) return true;
  return (find(name) < names_.size()) != exclude_;
}

std::size_t NameFilter::position(std::string_view name) const { return exclude_ ? names_.size() : find(name); }

std::size_t NameFilter::find(std::string_view name) const {
  const auto match = [this, name](const std::string& item) { return exact_ ? name == item : name.starts_with(item); };
  return static_cast<std::size_t>(std::ranges::find_if(names_, match) - names_.begin());
}

}  // namespace tutti
