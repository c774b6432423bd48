#pragma once
// The state and phases of one run.

#include <algorithm>
#include <memory>
#include <optional>

#include "sheaf/base/stopwatch.hpp"
#include "sheaf/data/load/loader.hpp"
#include "sheaf/nn/pretrainable.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/checkpoint/kept_state.hpp"
#include "sheaf/train/log/journal.hpp"
#include "sheaf/train/loop/finite.hpp"
#include "sheaf/train/loop/learner.hpp"
#include "sheaf/train/loop/stop_signal.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "sheaf/train/setup/schedule.hpp"

namespace sheaf::train {

class Pretrainer;

// Sets the number of threads of this process according to the config.
void set_threads(const RunConfig& config, const comm::Group& group);

// `samples` is the subgroup of `group` with different samples.
data::LoaderOptions loader_options(const RunConfig& config, bool is_training,
                                   const DataSets& sets,
                                   const comm::Group& samples,
                                   const comm::Group& group);

class TrainerRun {
 public:
  TrainerRun(const comm::Group& group, const RunConfig& config,
             const TrainOptions& options);

  RunResult run();

 private:
  void check_strategy() const;
  std::string data_source() const;  // " (npy in DIR)"
  // Calls check_outputs() on rank 0. Skipped for split images, which may be too
  // large for one rank, and for a user's model, which may count its calls.
  std::int64_t outputs_of(const Model& model) const;
  void open_loaders(const torch::nn::Module& module);
  // Loads the state of a resumed run. Nothing is written before, because this
  // may still reject the run.
  void make_learner(Model model);
  void open_folder();
  void open_journal();

  // Loads the state to resume from, if the config is compatible with the run in
  // the folder.
  void accept_resumption(Model& model);
  // The next functions run on rank 0 only.
  void check_changes(bool has_checkpoint);
  void check_without_config(bool has_checkpoint) const;
  void check_best(TrainState& state) const;
  void check_fits(const TrainState& state, Model& model) const;
  // Whether the summary records the end of the run with this state, so that
  // nothing remains to be done.
  bool has_finished(const TrainState& state) const;
  RunResult finished_result();
  void say_resumption();

  void check_stack() const;
  // Trains all remaining stages. Returns false if a signal requested a stop;
  // the stage in progress is then discarded.
  bool pretrain();
  bool pretrain_stage();
  bool pretrain_batch(Pretrainer& pretrainer, const data::Batch& batch,
                      PretrainingReport& report);
  std::int64_t pretraining_left() const;  // in steps
  // Selects the parameters to train: the classifier only, or all.
  void choose_learners();

  bool train_epoch();  // false: a signal requested a stop
  bool train_batch(data::Batch& batch, double data_ms, Metrics& metrics);
  void tell(const BatchReport& report);
  void tell_plan();
  struct Agreement {
    Totals totals;           // for the batch, over all ranks
    bool must_stop = false;  // a rank received a signal
    bool is_finite = true;   // on all ranks
  };
  Agreement agree(const Totals& mine) const;
  bool checks_finite() const { return config_.on_non_finite != "ignore"; }
  // Throws NonFiniteError or skips the step.
  void refuse_step(const data::Batch& batch, Metrics& metrics);
  // `what` must be the same on all ranks; `mine` is the cause found on this
  // rank.
  [[noreturn]] void stop_as_not_finite(const std::string& what,
                                       const NonFiniteCause& mine) const;
  void check_finite_weights() const;
  void end_epoch(const Metrics& metrics);
  // Whether the epoch is the best so far; updates the state.
  bool judge(const MetricValues& values);
  MetricValues evaluate(data::Loader& loader);
  // Name of the metric that selects the best epoch: "validation_loss".
  std::string metric_name() const;
  void save(const Metrics* metrics);
  bool writes_shards() const;  // each rank writes a shard
  void test();
  std::optional<TrainState> best_to_test() const;
  void warn_if_not_finite(const char* what, const MetricValues& values) const;
  void finish(Ending ending);
  void write_summary() const;
  StepTimes times_so_far() const;  // for the whole run
  void say(const std::string& line);

  // Number of classes for metrics; 0 if outputs are not classes. A network may
  // have more outputs than the data has classes.
  std::int64_t classes() const {
    const std::int64_t known = sets_.train->classes();
    if (config_.loss == "mse" || known == 0) return 0;
    return std::max(known, outputs_);
  }
  bool is_first() const { return group_.rank() == 0; }

  const comm::Group& group_;
  comm::Group samples_;  // ranks with different samples
  const RunConfig& config_;
  const TrainOptions& options_;
  StopSignal stop_;
  RunResult result_;
  DataSets sets_;
  std::int64_t outputs_ = 0;  // see check_outputs()
  std::unique_ptr<TraceWriter> trace_;
  std::optional<data::Loader> train_loader_;
  std::optional<data::Loader> validation_loader_;
  std::optional<data::Loader> test_loader_;
  nn::Pretrainable* stack_ = nullptr;  // the network, if it has stages
  bool normalises_filters_ = false;    // after each step
  std::optional<Learner> learner_;
  std::optional<Schedule> schedule_;
  std::optional<CheckpointFolder> checkpoints_;
  std::optional<Journal> journal_;  // on rank 0
  std::string told_routes_;         // last routes.json, by parameter
  std::string told_plan_;           // last dad_plan.json
  TrainState state_;
  std::vector<ConfigChange> changes_;  // on rank 0, since the run started
  bool has_finished_ = false;          // before this resumption
  Stopwatch run_watch_;
  Stopwatch epoch_watch_;
  double seconds_before_ = 0;  // of the run before this process
  double epoch_seconds_before_ = 0;
  std::optional<KeptBuffers> before_step_;  // to skip the step
};

}  // namespace sheaf::train
