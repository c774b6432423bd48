#pragma once
// Loss and classification metrics computed from counts, which add up exactly
// over batches and ranks.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/log/metric_values.hpp"

namespace sheaf::train {

// Whether `value` is better than `best`. NaN is never better, and any number is
// better than NaN.
bool is_better(const std::string& metric, double value, double best,
               double min_change = 0);

// Plain sums over rows.
struct Totals {
  double rows = 0;
  double loss = 0;
  double hits = 0;

  Totals& operator+=(const Totals& other) {
    rows += other.rows;
    loss += other.loss;
    hits += other.hits;
    return *this;
  }
};

// Counts for one phase. Not thread-safe.
class Metrics {
 public:
  // `classes` is 0 if targets are not classes. Must be equal on all ranks.
  explicit Metrics(std::int64_t classes);

  // Adds a batch: its mean loss, the network's output (rows x classes; the
  // largest value is the prediction) and the targets. May have no rows. Returns
  // the batch's part of the totals.
  Totals add(double mean_loss, const torch::Tensor& output,
             const torch::Tensor& target);

  // Sums the counts over all ranks with one all-reduce. All ranks must call it.
  void sum_over(const comm::Group& group);

  MetricValues values() const;
  Totals totals() const { return {sums_[0], sums_[1], sums_[2]}; }

  // take_back() undoes everything added since mark().
  void mark();
  void take_back();

  // The complete state, for checkpoints. go_on_with() restores it and throws
  // UsageError if the number of classes differs.
  const std::vector<double>& sums() const { return sums_; }
  void go_on_with(std::vector<double> sums);

 private:
  static constexpr std::int64_t kMatrix = 3;  // offset of the matrix
  std::size_t place(std::int64_t target, std::int64_t answer) const {
    return static_cast<std::size_t>(kMatrix + target * classes_ + answer);
  }

  std::int64_t classes_;
  // Number of rows, sum of losses, hits, then the confusion matrix. Counts are
  // exact in doubles and are reduced together with the loss.
  std::vector<double> sums_;
  bool is_marked_ = false;
  Totals marked_;
  std::vector<std::size_t> places_since_mark_;
};

}  // namespace sheaf::train
