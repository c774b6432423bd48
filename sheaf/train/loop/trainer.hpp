#pragma once
// A complete run: training, validation, test, checkpoints, early stopping, and
// a clean stop on request.

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "sheaf/base/progress.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/log/metrics.hpp"
#include "sheaf/train/setup/data_setup.hpp"
#include "sheaf/train/setup/network_setup.hpp"
#include "sheaf/train/setup/optimizer.hpp"

namespace sheaf::train {

struct TrainOptions {
  // Determines the name of the run folder.
  std::string config_name = "run.yaml";
  bool is_resumed = false;
  // Allows resuming with settings that change the result.
  bool accepts_changes = false;
  std::ostream* out = nullptr;   // text output of rank 0; null: none
  Progress* progress = nullptr;  // terminal progress line of rank 0; null: none
  // Replace the model and the data that the config specifies.
  std::optional<Model> model = {};
  std::optional<DataSets> data = {};
};

enum class Ending { kFinished, kStoppedEarly, kStoppedBySignal };
std::string_view name_of(Ending ending) noexcept;

struct RunResult {
  Ending ending = Ending::kFinished;
  std::filesystem::path folder;
  std::int64_t steps = 0;  // total of the run
  MetricValues train;      // last epoch
  std::optional<MetricValues> validation;
  std::optional<MetricValues> test;  // none if stopped by a signal
  std::int64_t tested_step = -1;     // step whose weights were tested
  // The next four values are cumulative over all resumptions.
  double seconds = 0;
  double seconds_per_epoch = 0;
  double exchange_share = 0;       // fraction of step time spent waiting
  std::int64_t skipped_steps = 0;  // non-finite steps, see on_non_finite
  NamedTensors weights;            // final; share the module's memory
};

// Executes the run that the config describes. All ranks of the group must call
// it with the same config. A run that was interrupted and resumed ends with the
// same weights, bit for bit, as an uninterrupted one. With a validation set,
// the test uses the best weights. If their checkpoint is lost when a run is
// resumed, it logs a warning and searches for the best anew. Resuming a
// finished run changes nothing and returns the result in its summary. Throws
// UsageError for invalid settings or data, IoError for files, and
// NonFiniteError, on rank 0, if a loss or gradient is not finite and
// config.on_non_finite is stop. The other ranks throw FailedOnRoot if the error
// is found during setup or is a NonFiniteError.
RunResult run(const comm::Group& group, const RunConfig& config,
              const TrainOptions& options = {});

// Executes one step without keeping its results and prints, on rank 0, what it
// exchanges: for split images the splits, halos, messages and bytes of each
// layer; for dAD the route of each parameter. All ranks must call it.
void explain(const comm::Group& group, const RunConfig& config,
             std::ostream& out);

}  // namespace sheaf::train
