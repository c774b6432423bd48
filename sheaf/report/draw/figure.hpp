#pragma once
// Line charts side by side, with one legend.

#include <string>
#include <vector>

#include "sheaf/report/draw/scene.hpp"
#include "sheaf/report/runs/compare.hpp"

namespace sheaf::report {

struct Curve {
  int series = 0;  // index into the legend
  std::vector<Point> points;
  std::vector<Point> band = {};  // {low, high} at each point; may be empty
};

struct Panel {
  std::string title;    // "Cumulative time"
  std::string y_label;  // "s"
  std::string x_label;
  std::vector<Curve> curves;
};

struct Figure {
  std::string title;
  std::vector<std::string> legend;
  std::vector<Panel> panels;
  std::string footnote = "";
};

Scene draw(const Figure& figure);

// The figure of a comparison. Times and bytes have a cumulative panel and one
// with the value of each batch; other keys have only the latter. Long runs are
// drawn as medians over several batches, in a band from their 10th to their
// 90th percentile.
Figure figure_of(const Comparison& comparison);

// Round numbers from `low` to `high`, about `count` of them.
std::vector<double> ticks(double low, double high, int count);

// "0.05", "12", "2.5k", "3M": with enough digits to distinguish ticks that are
// `step` apart.
std::string tick_text(double value, double step);

}  // namespace sheaf::report
