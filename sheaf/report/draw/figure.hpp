#pragma once
// Charts of lines over axes, side by side, under one legend.

#include <string>
#include <vector>

#include "sheaf/report/draw/scene.hpp"
#include "sheaf/report/runs/compare.hpp"

namespace sheaf::report {

struct Curve {
  int series = 0;  // of the legend
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

// Times and bytes: what they come to, and of each batch; others: the latter.
// Many batches are drawn as the median of each few, in a band from their 10th
// to their 90th percentile.
Figure figure_of(const Comparison& comparison);

// Round numbers from `low` to `high`, about `count` of them.
std::vector<double> ticks(double low, double high, int count);

// "0.05", "12", "2.5k", "3M": as many digits as tell ticks `step` apart.
std::string tick_text(double value, double step);

}  // namespace sheaf::report
