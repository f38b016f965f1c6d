#pragma once

#include <string>
#include <vector>

#include "perf/results.h"

namespace tutti::perf {

// An SVG picture of a sweep: time (the median single call where there is one) and bus bandwidth against size, a line
// for each type, operation and root, dashed in place.
std::string plot(const std::string& title, const std::vector<Row>& rows);

}  // namespace tutti::perf
