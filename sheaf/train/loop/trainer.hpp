#pragma once
// A whole run: train, validate, test; checkpoints, early stopping, and an
// orderly end when asked for.

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "sheaf/base/progress.hpp"
#include "sheaf/train/loop/learner.hpp"
#include "sheaf/train/setup/data_setup.hpp"

namespace sheaf::train {

struct TrainOptions {
  std::string config_name = "run.yaml";  // names the folder of the run
  bool is_resumed = false;
  // Resumes also where settings that change the result are not those that the
  // run began with.
  bool accepts_changes = false;
  std::ostream* out = nullptr;   // lines for people, from rank 0
  Progress* progress = nullptr;  // a line on a terminal, from rank 0
  // In place of what the description asks for.
  std::optional<Model> model = {};
  std::optional<DataSets> data = {};
};

enum class Ending { kFinished, kStoppedEarly, kStoppedBySignal };
std::string_view name_of(Ending ending) noexcept;

struct RunResult {
  Ending ending = Ending::kFinished;
  std::filesystem::path folder;
  std::int64_t steps = 0;  // of the whole run
  MetricValues train;      // of the last epoch
  std::optional<MetricValues> validation;
  std::optional<MetricValues> test;  // none when a signal stopped the run
  std::int64_t tested_step = -1;     // whose weights the test took
  // The next four over all resumptions.
  double seconds = 0;
  double seconds_per_epoch = 0;
  double exchange_share = 0;       // of the steps' time, waited for
  std::int64_t skipped_steps = 0;  // as not finite, see on_non_finite
  NamedTensors weights;            // at the end, sharing the module's memory
};

// Runs the description on the group; all ranks call it with the same one. The
// weights of a run that was interrupted and resumed are, bit for bit, those of
// a run that was not. With a validation set, the test takes the best weights;
// where their checkpoint is lost, a warning says so, and the last ones.
// A run that has finished and is resumed is left as it is; the result is that
// of its summary. NonFiniteError, on rank 0, where a loss or gradient is not
// finite and config.on_non_finite says stop.
RunResult run(const comm::Group& group, const RunConfig& config,
              const TrainOptions& options = {});

// Makes one step, of which nothing is kept, and tells what it exchanges, on
// rank 0: of cut images for each layer cuts, halos, messages and bytes; of dAD
// the way of each parameter. All ranks call it.
void explain(const comm::Group& group, const RunConfig& config,
             std::ostream& out);

}  // namespace sheaf::train
