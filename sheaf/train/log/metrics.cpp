#include "sheaf/train/log/metrics.hpp"

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::train {
namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// One class against the rest.
struct ClassCounts {
  double hits = 0;
  double targets = 0;
  double answers = 0;
};

struct MacroSums {
  double classes = 0;
  double precision = 0;
  double recall = 0;
  double f1 = 0;

  void add(const ClassCounts& one) {
    if (one.targets + one.answers == 0) return;
    classes += 1;
    precision += ratio(one.hits, one.answers);
    recall += ratio(one.hits, one.targets);
    f1 += ratio(2 * one.hits, one.targets + one.answers);
  }
};

}  // namespace

double MetricValues::get(const std::string& name) const {
  if (name == "loss") return loss;
  if (name == "accuracy") return accuracy;
  if (name == "precision") return precision;
  if (name == "recall") return recall;
  SHEAF_CHECK(name == "f1", "unknown metric '", name,
              "'; use loss, accuracy, precision, recall or f1");
  return f1;
}

bool is_better(const std::string& metric, double value, double best,
               double min_change) {
  if (std::isnan(value)) return false;
  if (std::isnan(best)) return true;
  return metric == "loss" ? value < best - min_change
                          : value > best + min_change;
}

Metrics::Metrics(std::int64_t classes)
    : classes_(classes),
      sums_(static_cast<std::size_t>(kMatrix + classes * classes)) {}

void Metrics::go_on_with(std::vector<double> sums) {
  SHEAF_CHECK(sums.size() == sums_.size(), "the checkpoint has ", sums.size(),
              " metric sums, but this run has ", sums_.size(),
              "; resume with the data that the run started with");
  sums_ = std::move(sums);
}

Totals Metrics::add(double mean_loss, const torch::Tensor& output,
                    const torch::Tensor& target) {
  const std::int64_t rows = target.size(0);
  if (rows == 0) return {};
  Totals added{static_cast<double>(rows),
               mean_loss * static_cast<double>(rows)};
  sums_[0] += added.rows;
  sums_[1] += added.loss;
  if (classes_ == 0) return added;
  SHEAF_CHECK(output.dim() == 2 && output.size(1) == classes_,
              "the network's output has shape ", output.sizes(),
              ", but the data has ", classes_,
              " classes; give the network's last layer one output per class");
  const torch::Tensor answers = output.argmax(1).to(torch::kCPU);
  const torch::Tensor targets = target.to(torch::kCPU, torch::kLong);
  const auto answer = answers.accessor<std::int64_t, 1>();
  const auto wanted = targets.accessor<std::int64_t, 1>();
  for (std::int64_t row = 0; row < rows; ++row)
    SHEAF_CHECK(wanted[row] >= 0 && wanted[row] < classes_, "target ",
                wanted[row], " is out of range; the classes are 0 to ",
                classes_ - 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    sums_[place(wanted[row], answer[row])] += 1;
    if (is_marked_)
      places_since_mark_.push_back(place(wanted[row], answer[row]));
    added.hits += wanted[row] == answer[row];
  }
  sums_[2] += added.hits;
  return added;
}

void Metrics::mark() {
  is_marked_ = true;
  marked_ = totals();
  places_since_mark_.clear();
}

void Metrics::take_back() {
  sums_[0] = marked_.rows;
  sums_[1] = marked_.loss;
  sums_[2] = marked_.hits;
  for (const std::size_t place : places_since_mark_) sums_[place] -= 1;
  places_since_mark_.clear();
}

void Metrics::sum_over(const comm::Group& group) {
  comm::all_reduce(group, sums_, {.name = "metrics"}).wait();
}

MetricValues Metrics::values() const {
  MetricValues values;
  values.rows = static_cast<std::int64_t>(sums_[0]);
  if (values.rows == 0) return values;
  values.loss = sums_[1] / sums_[0];
  if (classes_ == 0) return values;
  MacroSums macro;
  for (std::int64_t one = 0; one < classes_; ++one) {
    ClassCounts counts{sums_[place(one, one)]};
    for (std::int64_t other = 0; other < classes_; ++other) {
      counts.targets += sums_[place(one, other)];
      counts.answers += sums_[place(other, one)];
    }
    macro.add(counts);
  }
  values.accuracy = sums_[2] / sums_[0];
  values.precision = ratio(macro.precision, macro.classes);
  values.recall = ratio(macro.recall, macro.classes);
  values.f1 = ratio(macro.f1, macro.classes);
  return values;
}

}  // namespace sheaf::train
