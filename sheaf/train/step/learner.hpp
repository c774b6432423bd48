#pragma once
// Trains a network step by step: forward, loss, backward with the exchange of
// gradients, clipping, optimizer.

#include <torch/torch.h>

#include <memory>
#include <optional>

#include "sheaf/base/trace.hpp"
#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/parallel/precision/loss_scale.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/log/metrics.hpp"
#include "sheaf/train/log/step_times.hpp"
#include "sheaf/train/step/curvature.hpp"
#include "sheaf/train/step/finite.hpp"
#include "sheaf/train/step/loss.hpp"
#include "sheaf/train/step/optimized_parameters.hpp"
#include "sheaf/train/strategy/training_strategy.hpp"

namespace sheaf::train {

// A network with its optimizer and parallel strategy. Not thread-safe.
class Learner {
 public:
  // Moves the module to the device and precision of the config; all ranks take
  // rank 0's weights. All ranks must construct it together. The config, group
  // and trace must outlive it.
  Learner(const RunConfig& config, Model model, const comm::Group& group,
          TraceWriter* trace = nullptr);

  // Switches between training and evaluation mode (dropout etc.). Call it
  // before the steps of a phase.
  void set_training(bool is_on) { network_.module().train(is_on); }

  // A step whose gradients are computed.
  struct Computed {
    StepTimes times;
    Totals totals;  // for this rank's share of the batch
  };
  // One optimizer step on this rank's share of a global batch, which may be
  // empty. The gradient is that of the mean loss over the whole global batch.
  // Random numbers are a function of seed, step and rank.
  Computed train_step(const data::Batch& batch, std::int64_t step,
                      double learning_rate, Metrics& metrics);
  // The two halves of train_step(). compute() leaves the averaged gradients and
  // does not change the weights. apply() updates the weights. With a loss
  // scale, it may skip the update to reduce the scale. It returns false on all
  // ranks if gradients are not finite and the scale cannot be reduced further.
  Computed compute(const data::Batch& batch, std::int64_t step,
                   Metrics& metrics);
  bool apply(double learning_rate, StepTimes& times);

  // Between compute() and apply(): whether this rank's losses are finite and,
  // unless a loss scale checks them, the gradients.
  bool is_step_finite() const;
  // Repeats the passes of compute() to find the first non-finite value on this
  // rank; see find_non_finite_value(). All ranks must call it.
  NonFiniteCause find_non_finite(const data::Batch& batch, std::int64_t step);

  // This rank's part of a batch as input of the network, and the weight of a
  // row in sums that are averaged over ranks.
  std::pair<torch::Tensor, double> input_of(const data::Batch& batch) const;

  // In the following steps only these parameters are trained, and forward()
  // need not use the others; an empty list trains all parameters.
  void train_only(const std::vector<torch::Tensor>& parameters) {
    parameters_.train_only(parameters);
  }

  // Executes a step and returns what its layers exchanged.
  std::vector<spatial::ExchangeNote> notes_of_step(const data::Batch& batch);

  // Curvature of a step's loss on this batch with respect to each of the
  // weights, computed in the type of the weights regardless of the plan.
  // Changes no state. All ranks must call it. Throws UsageError if layers
  // exchange data.
  std::vector<Curvature> curvature(const data::Batch& batch,
                                   const std::vector<torch::Tensor>& weights,
                                   int samples);

  // Adds the batch to the metrics without changing any other state.
  void evaluate(const data::Batch& batch, Metrics& metrics);

  // Stores weights and optimizer buffers in the state. They share memory with
  // the learner, except those gathered from other ranks. All ranks must call
  // it.
  void save_to(TrainState& state) const;
  // Stores only the tensors of one shard; see share_of(). Buffers, which may
  // differ between ranks, are stored in the first shard.
  void save_share_to(TrainState& state, int shard, int shards) const;
  // Stores the residuals of a compressed exchange, those of all ranks on rank
  // 0, and the loss scale, if there are any. All ranks must call it.
  void gather_exchange(TrainState& state) const;
  void load_from(const TrainState& state);
  void load_weights(const NamedTensors& weights);

  // Overwrites rank-specific values by rank 0's, so that all ranks evaluate and
  // save the same model: buffers such as running statistics and, on mixed
  // devices, which round differently, all weights. All ranks must call it.
  void share_weights();

  const TrainingStrategy& strategy() const { return *strategy_; }
  const Network& network() const { return network_; }
  const torch::nn::Module& module() const { return network_.module(); }
  const OptimizedParameters& parameters() const { return parameters_; }

 private:
  std::uint64_t seed_of(std::int64_t step) const;
  LossPath path() { return {network_, cutter_, loss_}; }
  torch::TensorOptions options() const;
  torch::Tensor output_of(const Piece& piece) const;
  torch::Tensor forward(const Piece& piece, torch::Tensor& output);
  void backward(torch::Tensor loss) const;
  Totals add_to(Metrics& metrics, const Piece& piece,
                const torch::Tensor& output, double loss_sum) const;
  void learn(const Piece& piece, Computed& done, Metrics& metrics);
  void take_exchange(StepTimes& times);
  void clip();

  const RunConfig& config_;
  const comm::Group& group_;
  TraceWriter* trace_;
  Network network_;
  std::unique_ptr<TrainingStrategy> strategy_;
  PieceCutter cutter_;
  Loss loss_;
  OptimizedParameters parameters_;
  std::optional<parallel::LossScale> scale_;  // if the plan needs it
  bool has_finite_losses_ = true;             // on this rank, since compute()
};

}  // namespace sheaf::train
