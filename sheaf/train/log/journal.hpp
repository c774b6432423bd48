#pragma once
// The progress output of a run: rows in log.jsonl, the TensorBoard file, and a
// progress line on a terminal or plain lines. Only one rank has a journal.

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "sheaf/base/progress.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/files/event_file.hpp"
#include "sheaf/train/files/run_log.hpp"
#include "sheaf/train/log/metrics.hpp"
#include "sheaf/train/log/step_times.hpp"

namespace sheaf::train {

struct JournalOptions {
  std::filesystem::path folder;
  std::int64_t next_step = 0;
  std::int64_t steps_per_epoch = 1;
  std::ostream* out = nullptr;   // for text lines; null: none
  Progress* progress = nullptr;  // null: plain lines also for steps
};

struct BatchReport {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // within the epoch
  std::int64_t step = 0;   // within the run
  Totals totals;           // for the batch, over all ranks
  bool has_classes = false;
  double learning_rate = 0;
  StepTimes times;
  bool is_skipped = false;  // non-finite loss or gradients
};

struct EpochReport {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // last step of the epoch
  MetricValues train;
  std::optional<MetricValues> validation;
  double learning_rate = 0;
  double duration = 0;  // ms, including validation
  StepTimes times;      // sums over the steps
  bool is_best = false;
  std::int64_t skipped_steps = 0;  // in the epoch
};

// One step of pre-training, or the means over one of its epochs.
struct PretrainingReport {
  std::int64_t stage = 0;
  std::int64_t stages = 0;
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // within the epoch
  std::int64_t step = 0;   // negative: the steps of the run start at 0
  std::int64_t rows = 0;   // in the batch, over all ranks
  double reconstruction = 0;
  double sparsity = 0;
  double data = 0;      // ms
  double duration = 0;  // ms, total
  // Cost or gradients were not finite (for an epoch: in all its steps), so
  // reconstruction and sparsity are undefined.
  bool is_skipped = false;
};

// Writes the reports of one run. `config` must outlive it. Throws IoError if a
// file cannot be written.
class Journal {
 public:
  Journal(const RunConfig& config, const JournalOptions& options);

  void add(const BatchReport& report);
  void add(const EpochReport& report);
  void add(const PretrainingReport& report);
  void end_epoch(const PretrainingReport& report);
  // Logs the exchange of the batch's factors, layer by layer.
  void add_layers(const BatchReport& report,
                  const std::vector<parallel::DadRoute>& routes);
  // Writes routes.json: the route of each parameter's gradient and the reason.
  void write_routes(const std::vector<parallel::DadRoute>& routes);
  void add_test(std::int64_t step, const MetricValues& values);
  // Prints one line of text.
  void say(const std::string& line);
  // Waits until all rows are on disk.
  void sync();

 private:
  void show_step(const BatchReport& report, double loss);
  std::string describe(const PretrainingReport& report) const;
  double done(std::int64_t steps) const;  // fraction of the run, 0 to 1

  const RunConfig& config_;
  JournalOptions options_;
  RunLog log_;
  std::optional<EventFile> events_;
  std::chrono::steady_clock::time_point last_line_ =
      std::chrono::steady_clock::now();
  double rows_since_line_ = 0;
  double rows_per_second_ = 0;
};

// Formats the defined metrics: "loss 0.3121  accuracy 88.9 %".
std::string describe(const MetricValues& values);
void append(Row& row, const std::string& prefix, const MetricValues& values);
void append(Row& row, const StepTimes& times);

}  // namespace sheaf::train
