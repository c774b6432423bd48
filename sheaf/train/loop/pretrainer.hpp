#pragma once
// Unsupervised pre-training: trains the filters of a network without labels,
// stage by stage, before the steps of the run. The output of a stage should
// reconstruct the image and be sparse.

#include <optional>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/nn/pretrainable.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/loop/run_saver.hpp"
#include "sheaf/train/loop/stop_signal.hpp"
#include "sheaf/train/step/finite.hpp"

namespace sheaf::train {

// This rank's contribution to the mean cost over a global batch: the mean over
// ranks is the mean over the batch.
struct PretrainingCost {
  double reconstruction = 0;
  double sparsity = 0;
};

// The cost of a row x with filters W, y = W x:
//   0.5 * |D W' y - x|^2 + sparsity * sum of the pooled y.
// W' is W transposed: encoder and decoder share their weights.
//
// A plain cost has no D: the reconstructions from all windows that cover a
// pixel add up. With filters of length 1 the sum is many times x, and the
// filters learn features that images do not have.
//
// In a scaled cost, D turns the sum into the mean over windows times the gain.
// x is the input of the filters, minus its mean over the first batch
// (config.center), times one factor per stage, so that the squares at one
// position of the first batch add up to 1 on average. The same learning rate
// and sparsity then suit all stages. The mean is subtracted because it is
// common to all images and makes up most of a photograph's brightness: filters
// that learn to reconstruct it respond equally to all images, even more so in
// later stages.
class Pretrainer {
 public:
  // All arguments must outlive the object.
  Pretrainer(const PretrainingConfig& config, nn::Pretrainable& network,
             std::size_t stage, const comm::Group& group);

  // Gradients of the shared weights in their role as encoder and as decoder.
  struct Gradients {
    at::Tensor encoder;
    at::Tensor decoder;
  };
  // Statistics of the first batch.
  struct Measure {
    at::Tensor mean;  // mean image; undefined: not subtracted
    double scale = 1;
  };
  struct Step {
    Gradients gradients;  // averaged over ranks
    PretrainingCost cost;
    Measure measure;
  };

  // One step on this rank's images, possibly none. `weight` is the weight of a
  // row in sums that are averaged over ranks: ranks / rows of the global batch.
  // All ranks must call it; they have the same weights before and after.
  PretrainingCost step(const at::Tensor& images, double weight);
  // The two halves of step(); compute() changes no state. All ranks must call
  // both.
  Step compute(const at::Tensor& images, double weight) const;
  void apply(const Step& step);

  // The first non-finite value in compute() on this rank. Does not average
  // gradients. All ranks must call it.
  NonFiniteCause find_non_finite(const at::Tensor& images, double weight) const;

 private:
  at::Tensor seen_in(const at::Tensor& images) const;
  // All ranks must call these three.
  Measure measure_of(const at::Tensor& seen, double weight) const;
  at::Tensor mean_of(const at::Tensor& seen, double weight) const;
  double scale_of(const at::Tensor& seen, double weight) const;
  // Subtracts the mean and multiplies by the scale, if there are rows.
  at::Tensor scaled(const at::Tensor& seen, const Measure& measure) const;
  at::Tensor decode(const at::Tensor& filtered,
                    const at::Tensor& weights) const;
  Gradients gradients_of(const at::Tensor& seen, double weight,
                         PretrainingCost& cost) const;
  void descend(const at::Tensor& gradient);

  const PretrainingConfig& config_;
  nn::Pretrainable& network_;
  std::size_t stage_;
  const comm::Group& group_;
  nn::LocallyConnected2d filters_;
  at::Tensor shares_;  // a window's share in each pixel; undefined: 1
  std::optional<Measure> measure_;  // set by the first batch
};

// The steps of pre-training that remain.
std::int64_t pretraining_steps_left(const TrainingSession& session,
                                    const TrainState& state);

// Pre-trains all stages, before the steps of the run. The arguments must
// outlive the object. All ranks must use it together.
class PretrainingPhase {
 public:
  PretrainingPhase(const SavedRun& run, RunSaver& saver, const StopSignal& stop)
      : run_(run), saver_(saver), stop_(stop) {}

  // Trains all remaining stages. Returns false if a signal requested a stop;
  // the stage in progress is then discarded.
  bool run();

 private:
  bool train_stage();
  bool train_epoch(Pretrainer& pretrainer, PretrainingReport& report);
  bool train_batch(Pretrainer& pretrainer, const data::Batch& batch,
                   PretrainingReport& report);
  bool is_finite_here(const Pretrainer::Step& step) const;
  [[noreturn]] void stop(const PretrainingReport& report,
                         const NonFiniteCause& cause) const;

  SavedRun run_;
  RunSaver& saver_;
  const StopSignal& stop_;
};

}  // namespace sheaf::train
