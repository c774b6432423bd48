#pragma once
// What a run tells while it goes on: rows in log.jsonl, TensorBoard's file, a
// progress line on a terminal, or plain lines. One rank has one.

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "sheaf/base/progress.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/files/event_file.hpp"
#include "sheaf/train/files/run_folder.hpp"
#include "sheaf/train/log/metrics.hpp"
#include "sheaf/train/log/step_times.hpp"

namespace sheaf::train {

struct JournalOptions {
  std::filesystem::path folder;
  std::int64_t next_step = 0;
  std::int64_t steps_per_epoch = 1;
  std::ostream* out = nullptr;   // for lines; null: none
  Progress* progress = nullptr;  // null: plain lines for steps, too
};

struct BatchReport {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // of the epoch
  std::int64_t step = 0;   // of the run
  Totals totals;           // of the batch, over all ranks
  bool has_classes = false;
  double learning_rate = 0;
  StepTimes times;
  bool is_skipped = false;  // loss or gradients were not finite
};

struct EpochReport {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // the last one
  MetricValues train;
  std::optional<MetricValues> validation;
  double learning_rate = 0;
  double duration = 0;  // ms, with validation
  StepTimes times;      // sums over the steps
  bool is_best = false;
  std::int64_t skipped_steps = 0;  // of the epoch
};

// A step of pre-training, or the means over an epoch of it.
struct PretrainingReport {
  std::int64_t stage = 0;
  std::int64_t stages = 0;
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // of the epoch
  std::int64_t step = 0;   // below 0: the run's own begin with 0
  std::int64_t rows = 0;   // of the batch, over all ranks
  double reconstruction = 0;
  double sparsity = 0;
  double data = 0;      // ms
  double duration = 0;  // ms, all of it
  // Cost or gradients were not finite, of an epoch in all its steps: there is
  // neither reconstruction nor sparsity.
  bool is_skipped = false;
};

class Journal {
 public:
  Journal(const RunConfig& config, const JournalOptions& options);

  void add(const BatchReport& report);
  void add(const EpochReport& report);
  void add(const PretrainingReport& report);
  void end_epoch(const PretrainingReport& report);
  // How factors of the batch travelled, layer by layer.
  void add_layers(const BatchReport& report,
                  const std::vector<parallel::DadRoute>& routes);
  // routes.json: the way of each parameter's gradient, and why.
  void write_routes(const std::vector<parallel::DadRoute>& routes);
  void add_test(std::int64_t step, const MetricValues& values);
  // A line for people.
  void say(const std::string& line);

 private:
  void show_step(const BatchReport& report, double loss);
  std::string describe(const PretrainingReport& report) const;
  double done(std::int64_t steps) const;  // of the whole run, 0 to 1

  const RunConfig& config_;
  JournalOptions options_;
  RunLog log_;
  std::optional<EventFile> events_;
  std::chrono::steady_clock::time_point last_line_ =
      std::chrono::steady_clock::now();
  double rows_since_line_ = 0;
  double rows_per_second_ = 0;
};

// "loss 0.3121  accuracy 88.9 %": what is defined of it.
std::string describe(const MetricValues& values);
void append(Row& row, const std::string& prefix, const MetricValues& values);
void append(Row& row, const StepTimes& times);

}  // namespace sheaf::train
