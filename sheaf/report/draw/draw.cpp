// Lays out a figure: the title, the legend below it, then the panels side by
// side, and a footnote at the bottom.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sheaf/base/text.hpp"
#include "sheaf/report/draw/figure.hpp"

namespace sheaf::report {
namespace {

constexpr double kPanelWidth = 340, kPanelHeight = 230;
constexpr double kLeft = 70, kBetween = 90, kRight = 24;
constexpr double kTitleHeight = 34, kLegendLine = 20, kPanelTop = 30;
constexpr double kBelow = 48, kFootnote = 22;
constexpr double kLetter = 7.4;  // width of most letters at 13 pixels
constexpr double kSample = 22;   // length of a line sample in the legend

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double size() const { return high - low; }
};

// The position of a panel and the ranges of its axes.
struct Axes {
  Point origin;  // upper left
  Range x, y;

  Point at(const Point& point) const {
    return {origin.x + (point.x - x.low) / x.size() * kPanelWidth,
            origin.y + (y.high - point.y) / y.size() * kPanelHeight};
  }
};

Range widened(Range range) {
  if (range.size() > 0) return range;
  if (!std::isfinite(range.low)) return {0, 1};
  const double by = range.low == 0 ? 1 : std::abs(range.low) / 2;
  return {range.low - by, range.high + by};
}

Axes axes_of(const Panel& panel, const Point& origin) {
  Axes axes{origin, {}, {}};
  for (const Curve& curve : panel.curves) {
    for (const Point& point : curve.points) {
      axes.x.include(point.x);
      axes.y.include(point.y);
    }
    for (const Point& band : curve.band) {
      axes.y.include(band.x);
      axes.y.include(band.y);
    }
  }
  // The axis starts at zero unless all values are far from it.
  if (axes.y.low > 0 && axes.y.low < 0.7 * axes.y.high) axes.y.low = 0;
  axes.x = widened(axes.x);
  axes.y = widened(axes.y);
  axes.y.high += 0.04 * axes.y.size();
  return axes;
}

double step_of(const std::vector<double>& marks) {
  return marks.size() > 1 ? marks[1] - marks[0] : 1;
}

void draw_axes(Scene& scene, const Axes& axes) {
  const double bottom = axes.origin.y + kPanelHeight;
  const auto rows = ticks(axes.y.low, axes.y.high, 5);
  for (const double mark : rows) {
    const double y = axes.at({axes.x.low, mark}).y;
    scene.shapes.push_back(
        Path{{{axes.origin.x, y}, {axes.origin.x + kPanelWidth, y}}, "grid"});
    scene.shapes.push_back(Label{{axes.origin.x - 8, y + 4},
                                 tick_text(mark, step_of(rows)),
                                 "small faint",
                                 Anchor::kEnd});
  }
  const auto columns = ticks(axes.x.low, axes.x.high, 6);
  for (const double mark : columns) {
    const double x = axes.at({mark, axes.y.low}).x;
    scene.shapes.push_back(Path{{{x, bottom}, {x, bottom + 4}}, "axis"});
    scene.shapes.push_back(Label{{x, bottom + 18},
                                 tick_text(mark, step_of(columns)),
                                 "small faint",
                                 Anchor::kMiddle});
  }
  scene.shapes.push_back(
      Path{{{axes.origin.x, bottom}, {axes.origin.x + kPanelWidth, bottom}},
           "axis"});
}

void draw_curve(Scene& scene, const Axes& axes, const Curve& curve) {
  Path band{{}, fmt::format("band {}", curve.series), true};
  Path line{{}, fmt::format("line {}", curve.series)};
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    line.points.push_back(axes.at(curve.points[i]));
    if (!curve.band.empty())
      band.points.push_back(axes.at({curve.points[i].x, curve.band[i].x}));
  }
  for (std::size_t i = curve.band.size(); i-- > 0;)
    band.points.push_back(axes.at({curve.points[i].x, curve.band[i].y}));
  if (!band.points.empty()) scene.shapes.push_back(std::move(band));
  if (line.points.size() == 1)  // a single point would be invisible
    line.points.push_back({line.points[0].x + 2, line.points[0].y});
  scene.shapes.push_back(std::move(line));
}

void draw_panel(Scene& scene, const Panel& panel, const Point& origin) {
  const Axes axes = axes_of(panel, origin);
  draw_axes(scene, axes);
  for (const Curve& curve : panel.curves) draw_curve(scene, axes, curve);
  const std::string unit =
      panel.y_label.empty() ? "" : fmt::format(" ({})", panel.y_label);
  scene.shapes.push_back(
      Label{{origin.x, origin.y - 12}, panel.title + unit, "panel"});
  scene.shapes.push_back(
      Label{{origin.x + kPanelWidth / 2, origin.y + kPanelHeight + 38},
            panel.x_label,
            "small faint",
            Anchor::kMiddle});
}

// The position of each legend entry; entries that do not fit begin a new line.
std::vector<Point> legend_places(const Figure& figure, double width) {
  std::vector<Point> places;
  Point next{kLeft, kTitleHeight + 18};
  for (const std::string& text : figure.legend) {
    const double size =
        kSample + 6 + kLetter * static_cast<double>(display_width(text)) + 18;
    if (next.x > kLeft && next.x + size > width) {
      next = {kLeft, next.y + kLegendLine};
    }
    places.push_back(next);
    next.x += size;
  }
  return places;
}

void draw_legend(Scene& scene, const Figure& figure,
                 const std::vector<Point>& places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Point& at = places[i];
    scene.shapes.push_back(Path{{{at.x, at.y - 4}, {at.x + kSample, at.y - 4}},
                                fmt::format("line {}", i)});
    scene.shapes.push_back(Label{{at.x + kSample + 6, at.y}, figure.legend[i]});
  }
}

}  // namespace

Scene draw(const Figure& figure) {
  const auto panels = static_cast<double>(figure.panels.size());
  Scene scene;
  scene.title = figure.title;
  scene.width = kLeft + panels * kPanelWidth + (panels - 1) * kBetween + kRight;
  const std::vector<Point> places = legend_places(figure, scene.width);
  const double top =
      (places.empty() ? kTitleHeight : places.back().y + 8) + kPanelTop;
  scene.height =
      top + kPanelHeight + kBelow + (figure.footnote.empty() ? 0 : kFootnote);
  scene.shapes.push_back(Label{{kLeft, 26}, figure.title, "title"});
  draw_legend(scene, figure, places);
  for (std::size_t i = 0; i < figure.panels.size(); ++i)
    draw_panel(
        scene, figure.panels[i],
        {kLeft + static_cast<double>(i) * (kPanelWidth + kBetween), top});
  if (!figure.footnote.empty())
    scene.shapes.push_back(
        Label{{kLeft, scene.height - 12}, figure.footnote, "small faint"});
  return scene;
}

}  // namespace sheaf::report
