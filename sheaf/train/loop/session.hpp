#pragma once
// A training, ready to take steps: what runs, recordings and explanations have
// in common.

#include <functional>
#include <memory>
#include <optional>

#include "sheaf/nn/pretrainable.hpp"
#include "sheaf/train/setup/data_setup.hpp"
#include "sheaf/train/setup/optimizer.hpp"
#include "sheaf/train/step/learner.hpp"

namespace sheaf::train {

// Replace the model and the data that the config specifies.
struct SessionOptions {
  std::optional<Model> model = {};
  std::optional<DataSets> data = {};
};

struct StepRequest {
  std::int64_t step = 0;  // of the run
  // Whether this rank received a signal. Asked after the passes; null: no.
  std::function<bool()> wants_stop = nullptr;
  // Applies the step even if its loss or gradients are not finite, as if
  // on_non_finite were ignore, but checks them: for measurements.
  bool applies_always = false;
};

struct StepResult {
  StepTimes times;  // without data and batch
  Totals totals;    // for the batch, over all ranks
  double learning_rate = 0;
  bool must_stop = false;  // a rank received a signal
  // False: loss or gradients are not finite, and no rank has changed its
  // weights; with on_non_finite skip, buffers and metrics are as before, too.
  bool is_applied = true;
};

// Not thread-safe. All ranks must construct it and call its functions together.
class TrainingSession {
 public:
  // Opens the data and creates the network and the loaders. Rank 0 does it
  // first, so that an error is reported once. Throws UsageError if settings,
  // data and network do not match, on rank 0; the other ranks then throw
  // FailedOnRoot. Sets the number of threads of this process. Group and config
  // must outlive the session.
  TrainingSession(const comm::Group& group, const RunConfig& config,
                  const SessionOptions& options = {});

  // Creates the learner and the schedule. The trace must outlive the session.
  void start(TraceWriter* trace = nullptr);

  // One step of training on this rank's share of a global batch. Either all
  // ranks apply it or none. The metrics count the share unless the step is
  // skipped. Needs start().
  StepResult step(const data::Batch& batch, const StepRequest& request,
                  Metrics& metrics);

  const comm::Group& group() const { return group_; }
  const RunConfig& config() const { return config_; }
  bool is_first() const { return group_.rank() == 0; }
  bool checks_finite() const { return config_.on_non_finite != "ignore"; }

  const DataSets& sets() const { return sets_; }
  Loaders& loaders() { return loaders_; }
  const Loaders& loaders() const { return loaders_; }
  // Number of classes for metrics; 0 if outputs are not classes. A network may
  // have more outputs than the data has classes.
  std::int64_t classes() const;

  torch::nn::Module& module() { return *model_.module; }
  nn::Pretrainable* stack() const { return stack_; }  // null: no stages
  Learner& learner() { return *learner_; }
  const Learner& learner() const { return *learner_; }
  const Schedule& schedule() const { return *schedule_; }

 private:
  void check_strategy() const;
  void prepare(const SessionOptions& options, const std::string& source);
  std::int64_t outputs_of(const SessionOptions& options,
                          const std::string& source) const;
  void check_stack() const;
  // What the ranks must agree on before the weights change.
  struct Agreement {
    Totals totals;
    bool must_stop = false;
    bool is_finite = true;
  };
  Agreement agree(const Totals& mine, const StepRequest& request) const;

  const comm::Group& group_;
  const RunConfig& config_;
  comm::Group samples_;  // ranks with different samples
  DataSets sets_;
  Model model_;
  nn::Pretrainable* stack_ = nullptr;  // the network, if it has stages
  Loaders loaders_;
  std::int64_t outputs_ = 0;  // see check_outputs()
  std::optional<Learner> learner_;
  std::optional<Schedule> schedule_;
};

}  // namespace sheaf::train
