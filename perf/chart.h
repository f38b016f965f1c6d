#pragma once

#include <string>
#include <vector>

#include "perf/svg.h"

namespace tutti::perf {

struct Series {
  std::string name;
  std::vector<Point> points;
  bool dashed = false;
};

// How numbers on an axis are written.
enum class Unit { kPlain, kBytes };

struct Axis {
  std::string label;
  Unit unit = Unit::kPlain;
};

// Draws series on logarithmic axes into the rectangle, legend included. Points that are not positive have no place on
// such axes and are left out.
void draw_log_chart(Svg& svg, Point corner, double width, double height, const std::string& title, const Axis& x,
                    const Axis& y, const std::vector<Series>& series);

}  // namespace tutti::perf
