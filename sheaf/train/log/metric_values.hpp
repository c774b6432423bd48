#pragma once
// The metrics of one phase of a run, as numbers.

#include <cstdint>
#include <limits>
#include <string>

namespace sheaf::train {

// Undefined values are NaN: all of them without rows, and all but the loss
// without classes.
struct MetricValues {
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  std::int64_t rows = 0;
  double loss = kNan;  // mean over the rows
  double accuracy = kNan;
  double precision = kNan;  // this and the next two: means over the classes
  double recall = kNan;     // that occur as target or as prediction
  double f1 = kNan;

  // `name` is "loss", "accuracy", ...; throws UsageError for other names.
  double get(const std::string& name) const;
};

}  // namespace sheaf::train
