#pragma once
// Loss and classification metrics from counts, which add up over batches and
// ranks without error.

#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::train {

// What a phase has reached. NaN where it is not defined: without rows, and
// without classes all but the loss.
struct MetricValues {
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  std::int64_t rows = 0;
  double loss = kNan;  // mean over the rows
  double accuracy = kNan;
  double precision = kNan;  // this and the next two: means over the classes
  double recall = kNan;     // that occur, as target or as answer
  double f1 = kNan;

  // "loss", "accuracy", ...: UsageError for other names.
  double get(const std::string& name) const;
};

// Whether `value` is better than `best`; a NaN is never, and anything is
// better than a NaN.
bool is_better(const std::string& metric, double value, double best,
               double min_change = 0);

// Plain sums; those of two moments tell what came in between.
struct Totals {
  double rows = 0;
  double loss = 0;
  double hits = 0;
};

class Metrics {
 public:
  // `classes` is 0 where targets are not classes. Ranks give the same.
  explicit Metrics(std::int64_t classes);

  // A batch: its mean loss, what the network said (rows x classes; the largest
  // is the answer), and the targets. May have no rows.
  void add(double mean_loss, const torch::Tensor& output,
           const torch::Tensor& target);

  // The same counts on every rank, of all ranks together. One all-reduce.
  void sum_over(const comm::Group& group);

  MetricValues values() const;
  Totals totals() const { return {sums_[0], sums_[1], sums_[2]}; }

  // What was added since mark() can be taken back.
  void mark();
  Totals since_mark() const;
  void take_back();

  // All that it knows, for a checkpoint. Going on with another one's sums
  // needs the same number of classes, else UsageError.
  const std::vector<double>& sums() const { return sums_; }
  void go_on_with(std::vector<double> sums);

 private:
  static constexpr std::int64_t kMatrix = 3;  // where the matrix begins
  std::size_t place(std::int64_t target, std::int64_t answer) const {
    return static_cast<std::size_t>(kMatrix + target * classes_ + answer);
  }

  std::int64_t classes_;
  // Rows, the sum of losses, hits, then how often each answer met each target.
  // Whole numbers stay exact in doubles, and travel together with the loss.
  std::vector<double> sums_;
  bool is_marked_ = false;
  Totals marked_;
  std::vector<std::size_t> places_since_mark_;
};

}  // namespace sheaf::train
