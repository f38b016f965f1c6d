#include "perf/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::perf {
namespace {

// Tells eight series apart, also for colour-blind readers (Okabe and Ito).
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#56b4e9", "#e69f00", "#000000", "#8c6d31"};
constexpr const char* kGrid = "#e2e2e2";
constexpr double kTickSpacing = 44;  // pixels that a label needs

// Positions on a logarithmic axis whose ends are powers of its base.
struct Scale {
  double base;
  double low;  // exponents
  double high;
  double from;  // pixels
  double to;

  double place(double value) const {
    return from + (std::log(value) / std::log(base) - low) / (high - low) * (to - from);
  }
  double step() const {  // exponents from tick to tick
    const double ticks = std::max(1.0, std::floor(std::fabs(to - from) / kTickSpacing));
    return std::max(1.0, std::ceil((high - low) / ticks));
  }
};

Scale make_scale(const std::vector<Series>& series, double Point::*coordinate, Unit unit, double from, double to) {
  double low = std::numeric_limits<double>::max(), high = 0;
  for (const Series& one : series) {
    for (const Point& point : one.points) {
      if (point.x <= 0 || point.y <= 0) continue;
      low = std::min(low, point.*coordinate);
      high = std::max(high, point.*coordinate);
    }
  }
  if (high == 0) low = high = 1;
  const double base = unit == Unit::kBytes ? 2 : 10;
  Scale scale{base, std::floor(std::log(low) / std::log(base)), std::ceil(std::log(high) / std::log(base)), from, to};
  if (scale.high == scale.low) scale.high += 1;
  return scale;
}

std::string number(double value, Unit unit) {
  if (unit == Unit::kPlain) return fmt::format("{:g}", value);
  const char* suffix = "";
  for (const char* larger : {"K", "M", "G", "T"}) {
    if (value < 1024) break;
    value /= 1024;
    suffix = larger;
  }
  return fmt::format("{:g}{}", value, suffix);
}

}  // namespace

void draw_log_chart(Svg& svg, Point corner, double width, double height, const std::string& title, const Axis& x,
                    const Axis& y, const std::vector<Series>& series) {
  const double left = corner.x + 64, right = corner.x + width - 16;
  const double top = corner.y + 36, bottom = corner.y + height - 48;
  const Scale across = make_scale(series, &Point::x, x.unit, left, right);
  const Scale up = make_scale(series, &Point::y, y.unit, bottom, top);

  svg.text({(left + right) / 2, corner.y + 20}, title, 15, Svg::Anchor::kMiddle);
  for (double e = across.low; e <= across.high; e += across.step()) {
    const double at = across.place(std::pow(across.base, e));
    svg.line({at, top}, {at, bottom}, kGrid);
    svg.text({at, bottom + 16}, number(std::pow(across.base, e), x.unit), 11, Svg::Anchor::kMiddle);
  }
  for (double e = up.low; e <= up.high; e += up.step()) {
    const double at = up.place(std::pow(up.base, e));
    svg.line({left, at}, {right, at}, kGrid);
    svg.text({left - 6, at + 4}, number(std::pow(up.base, e), y.unit), 11, Svg::Anchor::kEnd);
  }
  svg.line({left, bottom}, {right, bottom}, "#333");
  svg.line({left, top}, {left, bottom}, "#333");
  svg.text({(left + right) / 2, bottom + 36}, x.label, 12, Svg::Anchor::kMiddle);
  svg.text({corner.x + 16, (top + bottom) / 2}, y.label, 12, Svg::Anchor::kMiddle, "#333", -90);

  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* color = kColors[i % std::size(kColors)];
    std::vector<Point> path;
    for (const Point& point : series[i].points) {
      if (point.x > 0 && point.y > 0) path.push_back({across.place(point.x), up.place(point.y)});
    }
    svg.polyline(path, color, 2, series[i].dashed);
    std::size_t next = 0;
    for (const Point& point : series[i].points) {
      if (point.x <= 0 || point.y <= 0) continue;
      svg.circle(path[next++], 3, color,
                 fmt::format("{}: {}, {:.3g}", series[i].name, number(point.x, x.unit), point.y));
    }
    const double row = top + 14 + 16 * static_cast<double>(i);
    svg.line({left + 10, row - 4}, {left + 34, row - 4}, color, 2);
    svg.text({left + 40, row}, series[i].name, 11);
  }
}

}  // namespace tutti::perf
