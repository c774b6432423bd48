#pragma once
// Trains a network step by step: forward, loss, backward with the exchange of
// gradients, clipping, optimizer.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "sheaf/base/trace.hpp"
#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/parallel/precision/loss_scale.hpp"
#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/spatial/spatial_parallel.hpp"
#include "sheaf/spatial/split/tiles.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/log/metrics.hpp"
#include "sheaf/train/log/step_times.hpp"
#include "sheaf/train/loop/curvature.hpp"
#include "sheaf/train/loop/finite.hpp"
#include "sheaf/train/setup/model.hpp"

namespace sheaf::train {

// The ranks that process different samples: all ranks, unless images are split;
// then the ranks with the same tile of different images. All ranks must call
// it.
comm::Group sample_ranks(const RunConfig& config, const comm::Group& group);

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
  void set_training(bool is_on) { model_.module->train(is_on); }

  // One optimizer step on this rank's share of a global batch, which may be
  // empty. The gradient is that of the mean loss over the whole global batch.
  // Random numbers are a function of seed, step and rank.
  StepTimes train_step(const data::Batch& batch, std::int64_t step,
                       double learning_rate, Metrics& metrics);
  // The two halves of train_step(). compute() leaves the averaged gradients and
  // does not change the weights. apply() updates the weights. With a loss
  // scale, it may skip the update to reduce the scale. It returns false, on all
  // ranks alike, if gradients are not finite and the scale cannot be reduced
  // further.
  StepTimes compute(const data::Batch& batch, std::int64_t step,
                    Metrics& metrics);
  bool apply(double learning_rate, StepTimes& times);

  // Between compute() and apply(): whether this rank's losses are finite and,
  // unless a loss scale checks them, the gradients.
  bool is_step_finite() const;
  // Repeats the passes of compute() without exchanging gradients and reports
  // the first non-finite value on this rank, such as "the output of layer 'fc1'
  // (aten::addmm)". All ranks must call it.
  NonFiniteCause find_non_finite(const data::Batch& batch, std::int64_t step);
  // The first parameter with a non-finite gradient; empty if there is none.
  std::string find_non_finite_gradient() const;
  // The first non-finite weight or buffer; empty if there is none. Ignores
  // buffers that were not finite when the learner was constructed, such as a
  // causal mask.
  std::string find_non_finite_weight() const;

  // The precisions of layers; null: each computes in the type of its weights.
  const plan::PrecisionPlan* plan() const {
    return precision_ ? &precision_->plan() : nullptr;
  }

  // This rank's part of a batch as input of the network, and the weight of a
  // row in sums that are averaged over ranks.
  std::pair<torch::Tensor, double> input_of(const data::Batch& batch) const;

  // In the following steps only these parameters are trained, and forward()
  // need not use the others; an empty list trains all parameters.
  void train_only(const std::vector<torch::Tensor>& parameters);

  // Executes a step on split images and returns what it exchanged.
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

  // Throws CheckError if the weights differ in any bit between ranks; see
  // Strategy.
  void check_weights() const;

  // The routes of the parameters' gradients; empty before the first step and
  // for strategies with a single route.
  std::vector<parallel::DadRoute> routes() const;
  // The routes that strategy auto has chosen; empty before its decision and for
  // other strategies.
  parallel::FixedRoutes fixed_routes() const;

  const torch::nn::Module& module() const { return *model_.module; }
  const NamedTensors& parameters() const { return parameters_; }

 private:
  struct Piece {
    torch::Tensor data;    // split if images are split
    torch::Tensor target;  // split if it has one value per pixel
    double weight = 0;     // weight of a row's loss
  };

  void seed_step(std::int64_t step) const;
  std::string find_in_piece(const Piece& piece);
  std::set<std::string> find_infinite_buffers() const;
  void make_parallel(TraceWriter* trace);
  ParallelConfig planned_parallel();
  parallel::FixedRoutes planned_routes() const;
  void use_plan();
  // Applies the plan to the operators within; null without a plan.
  std::unique_ptr<parallel::MixedPrecision::Scope> plan_scope();
  // Rows of the batch as input of the network: tiles if images are split.
  torch::Tensor images_of(const data::Batch& batch, std::int64_t first,
                          std::int64_t rows) const;
  torch::Tensor targets_of(const data::Batch& batch, std::int64_t first,
                           std::int64_t rows) const;
  Piece piece_of(const data::Batch& batch, std::int64_t first,
                 std::int64_t rows) const;
  // Number of pieces into which a step splits this rank's share, and one piece.
  std::int64_t parts_of(const data::Batch& batch) const;
  Piece piece_of_step(const data::Batch& batch, std::int64_t i) const;
  torch::Tensor loss_sum(const torch::Tensor& output,
                         const torch::Tensor& target) const;
  torch::Tensor output_of(const Piece& piece);
  torch::Tensor forward(const Piece& piece, torch::Tensor& output);
  void add_to(Metrics& metrics, const Piece& piece, const torch::Tensor& output,
              double loss_sum) const;
  torch::Tensor nothing(const std::vector<torch::Tensor>& parameters) const;
  void learn(const Piece& piece, StepTimes& times, Metrics& metrics);
  void take_exchange(StepTimes& times);
  void clip();
  void step_optimizer();
  void gather_places(TrainState& state) const;

  const RunConfig& config_;
  Model model_;
  const comm::Group& group_;
  TraceWriter* trace_;
  torch::Device device_;
  torch::ScalarType type_;
  std::optional<plan::ExchangePlan> ways_;        // from the plan
  std::unique_ptr<parallel::Strategy> parallel_;  // null: one rank
  // `parallel_`, if it is of this type; otherwise null.
  spatial::SpatialParallelCore* spatial_ = nullptr;
  comm::Group samples_;
  NamedTensors parameters_;             // each tensor once
  std::vector<torch::Tensor> resting_;  // parameters not trained
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<parallel::MixedPrecision> precision_;  // with a plan
  std::optional<parallel::LossScale> scale_;           // if the plan needs it
  bool has_finite_losses_ = true;           // on this rank, since compute()
  std::set<std::string> infinite_buffers_;  // at construction
};

}  // namespace sheaf::train
