#pragma once
// Estimates the latency and bandwidth of a link from measured times.

#include <vector>

#include "sheaf/topo/machine.hpp"

namespace sheaf::topo {

struct Sample {
  double bytes = 0;
  double time_us = 0;
};

struct LinkFit {
  Link link;
  // Root mean square of (measured - fitted) / fitted over the samples used:
  // 0.1 means that the line is typically 10 % off.
  double residual = 0;
  int used = 0;
  int dropped = 0;  // outliers
};

// Fits time = latency + bytes / bandwidth, with latency_us >= 0. Sizes span
// several decades, so errors are relative to the fitted time; outliers are
// dropped. Throws UsageError if the samples do not determine a line: fewer than
// two sizes, a time <= 0, or times that do not grow with the size.
LinkFit fit_link(const std::vector<Sample>& samples);

}  // namespace sheaf::topo
