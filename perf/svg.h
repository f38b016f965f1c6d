#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::perf {

struct Point {
  double x;
  double y;
};

// Writes an SVG picture, shape by shape; later shapes cover earlier ones. Text is escaped. One thread.
class Svg {
 public:
  enum class Anchor { kStart, kMiddle, kEnd };

  Svg(double width, double height);

  void rectangle(Point corner, double width, double height, std::string_view fill);
  void line(Point from, Point to, std::string_view color, double width = 1);
  void polyline(const std::vector<Point>& points, std::string_view color, double width, bool dashed = false);
  void circle(Point center, double radius, std::string_view fill, std::string_view tooltip = {});
  void text(Point at, std::string_view text, double size, Anchor anchor = Anchor::kStart,
            std::string_view color = "#333", double rotate = 0);

  // The document so far, closed.
  std::string str() const;

 private:
  std::string body_;
};

}  // namespace tutti::perf
