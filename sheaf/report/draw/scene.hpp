#pragma once
// A picture as lines and texts, and as an SVG file.

#include <string>
#include <variant>
#include <vector>

namespace sheaf::report {

struct Point {
  double x = 0;
  double y = 0;
};

// `style` names a class of the style sheet in svg.cpp.
struct Path {
  std::vector<Point> points;
  std::string style;
  bool is_area = false;  // closed, and filled rather than drawn
};

enum class Anchor { kStart, kMiddle, kEnd };

struct Label {
  Point at;
  std::string text;
  std::string style = "";
  Anchor anchor = Anchor::kStart;
  bool is_upright = false;  // turned by a quarter, to be read from the right
};

// Measured in pixels from the upper left.
struct Scene {
  double width = 0;
  double height = 0;
  std::string title;  // for those who cannot see it
  std::vector<std::variant<Path, Label>> shapes = {};
};

struct SvgOptions {
  // Dark where the viewer asks for it; otherwise always light.
  bool has_dark = true;
};

// The classes of the n-th series, counted from 0, are "line n" and "band n";
// after kSeriesColours they begin again, dashed.
constexpr int kSeriesColours = 8;

std::string svg_of(const Scene& scene, const SvgOptions& options = {});

}  // namespace sheaf::report
