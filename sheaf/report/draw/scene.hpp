#pragma once
// A figure as a list of paths and labels, and its SVG text and PNG file.

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace sheaf::report {

struct Point {
  double x = 0;
  double y = 0;
};

// `style` is a class of the style sheet in svg.cpp.
struct Path {
  std::vector<Point> points;
  std::string style;
  bool is_area = false;  // closed and filled instead of stroked
};

enum class Anchor { kStart, kMiddle, kEnd };

struct Label {
  Point at;
  std::string text;
  std::string style = "";
  Anchor anchor = Anchor::kStart;
  bool is_upright = false;  // rotated by 90 degrees counterclockwise
};

// Coordinates are in pixels from the upper left corner.
struct Scene {
  double width = 0;
  double height = 0;
  std::string title;  // for screen readers
  std::vector<std::variant<Path, Label>> shapes = {};
};

struct SvgOptions {
  // Follow the viewer's dark mode; otherwise always light.
  bool has_dark = true;
};

// The styles of series n, counted from 0, are "line n" and "band n"; colors
// repeat after kSeriesColors, with dashed lines.
constexpr int kSeriesColors = 8;

std::string svg_of(const Scene& scene, const SvgOptions& options = {});

// Writes a PNG file in light colors at twice the scene's resolution, with the
// program rsvg-convert (Debian: librsvg2-bin). The library is not linked,
// because `sheaf` starts every rank and would load its dozens of dependencies
// each time. Returns false, without writing a file, if rsvg-convert is not
// installed; throws IoError if it fails.
bool write_png(const Scene& scene, const std::filesystem::path& file);

}  // namespace sheaf::report
