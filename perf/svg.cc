#include "perf/svg.h"

#include <fmt/format.h>

#include <iterator>

namespace tutti::perf {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

Svg::Svg(double width, double height) {
  body_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} {1:g}\" "
      "font-family=\"sans-serif\">\n",
      width, height);
}

void Svg::rectangle(Point corner, double width, double height, std::string_view fill) {
  fmt::format_to(std::back_inserter(body_),
                 "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", corner.x,
                 corner.y, width, height, escaped(fill));
}

void Svg::line(Point from, Point to, std::string_view color, double width) {
  fmt::format_to(
      std::back_inserter(body_),
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{:g}\"/>\n", from.x,
      from.y, to.x, to.y, escaped(color), width);
}

void Svg::polyline(const std::vector<Point>& points, std::string_view color, double width, bool dashed) {
  body_ += "<polyline points=\"";
  for (const Point& point : points) fmt::format_to(std::back_inserter(body_), "{:.1f},{:.1f} ", point.x, point.y);
  fmt::format_to(std::back_inserter(body_), "\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:g}\"{}/>\n",
                 escaped(color), width, dashed ? " stroke-dasharray=\"6 4\"" : "");
}

void Svg::circle(Point center, double radius, std::string_view fill, std::string_view tooltip) {
  fmt::format_to(std::back_inserter(body_), "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"{}\"", center.x,
                 center.y, radius, escaped(fill));
  body_ += tooltip.empty() ? "/>\n" : "><title>" + escaped(tooltip) + "</title></circle>\n";
}

void Svg::text(Point at, std::string_view text, double size, Anchor anchor, std::string_view color, double rotate) {
  const char* name = anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
  const std::string turned =
      rotate == 0 ? "" : fmt::format(" transform=\"rotate({:g} {:.1f} {:.1f})\"", rotate, at.x, at.y);
  fmt::format_to(std::back_inserter(body_),
                 "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n",
                 at.x, at.y, size, name, escaped(color), turned, escaped(text));
}

std::string Svg::str() const { return body_ + "</svg>\n"; }

}  // namespace tutti::perf
