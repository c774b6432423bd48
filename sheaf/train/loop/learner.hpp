#pragma once
// A network that learns: forward, loss, backward with the exchange of
// gradients, clipping, optimiser.

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
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/log/metrics.hpp"
#include "sheaf/train/log/step_times.hpp"
#include "sheaf/train/loop/curvature.hpp"
#include "sheaf/train/loop/finite.hpp"
#include "sheaf/train/setup/model.hpp"

namespace sheaf::train {

// Ranks with samples of their own: all, unless images are cut; then those that
// have the same tile of others. All ranks call it.
comm::Group sample_ranks(const RunConfig& config, const comm::Group& group);

class Learner {
 public:
  // Moves the module to the description's device and precision; weights become
  // rank 0's. All ranks make it together. The group and the trace must outlive
  // it.
  Learner(const RunConfig& config, Model model, const comm::Group& group,
          TraceWriter* trace = nullptr);

  // Before the steps of a phase: whether dropout and the like are on.
  void set_training(bool is_on) { model_.module->train(is_on); }

  // One optimizer step on this rank's share of a global batch, which may be
  // empty. The gradient is that of the mean loss over the whole global batch.
  // Random numbers are a function of seed, step and rank.
  StepTimes train_step(const data::Batch& batch, std::int64_t step,
                       double learning_rate, Metrics& metrics);
  // Its two halves. compute() leaves the averaged gradients, and the weights as
  // they were. apply() steps; a step that a loss scale leaves out to find a
  // better one is part of its work. It returns false, the same on all ranks,
  // where gradients are not finite and no smaller scale is left.
  StepTimes compute(const data::Batch& batch, std::int64_t step,
                    Metrics& metrics);
  bool apply(double learning_rate, StepTimes& times);

  // Between the two: whether this rank's losses are finite, and the gradients,
  // where no loss scale looks after these.
  bool is_step_finite() const;
  // Makes the passes of compute() again, without any exchange of gradients, and
  // reports what was the first not to be finite, such as "the output of layer
  // 'fc1' (aten::addmm)", on this rank. All ranks call it.
  NonFiniteCause find_non_finite(const data::Batch& batch, std::int64_t step);
  // The first parameter whose gradient is not finite; empty: all are.
  std::string find_non_finite_gradient() const;
  // The same of weights and buffers, without those buffers that were not finite
  // when the learner was made, such as a causal mask.
  std::string find_non_finite_weight() const;

  // In which layers compute; null: all as their weights.
  const plan::PrecisionPlan* plan() const {
    return precision_ ? &precision_->plan() : nullptr;
  }

  // This rank's part of a batch as the network gets it, and what a row counts
  // in sums whose mean over ranks is taken.
  std::pair<torch::Tensor, double> input_of(const data::Batch& batch) const;

  // In the steps that follow, other parameters stay as they are, and forward()
  // need not reach them; with none, all learn.
  void train_only(const std::vector<torch::Tensor>& parameters);

  // What a step on cut images exchanges; it is made, too.
  std::vector<spatial::ExchangeNote> notes_of_step(const data::Batch& batch);

  // How curved the loss of a step on this batch is in each of the weights, as
  // the network is now, computed in their type whatever the plan says. Nothing
  // changes. All ranks call it. UsageError where layers exchange something.
  std::vector<Curvature> curvature(const data::Batch& batch,
                                   const std::vector<torch::Tensor>& weights,
                                   int samples);

  // Adds the batch to the metrics, changing nothing else.
  void evaluate(const data::Batch& batch, Metrics& metrics);

  // Puts weights and the optimiser's buffers into the state, sharing memory
  // but for those that are gathered from other ranks. All ranks call it.
  void save_to(TrainState& state) const;
  // Only what falls to a shard; see share_of(). Buffers, which may differ
  // between ranks, are the first's.
  void save_share_to(TrainState& state, int shard, int shards) const;
  // Puts in what a compressed exchange has held back, all ranks' on rank 0, and
  // the scale of the loss. All ranks call it; without them it does nothing.
  void gather_exchange(TrainState& state) const;
  void load_from(const TrainState& state);
  void load_weights(const NamedTensors& weights);

  // What ranks have of their own becomes rank 0's, so that all evaluate and
  // save one model: buffers that each has changed, such as running statistics,
  // and on mixed devices, which round differently, all weights. All ranks call
  // it.
  void share_weights();

  // CheckError when the ranks' weights differ in a bit; see Strategy.
  void check_weights() const;

  // The ways of the parameters' gradients; empty before the first step, and
  // for strategies that have but one.
  std::vector<parallel::DadRoute> routes() const;
  // What strategy auto has decided on; empty before, and for others.
  parallel::FixedRoutes fixed_routes() const;

  const torch::nn::Module& module() const { return *model_.module; }
  const NamedTensors& parameters() const { return parameters_; }

 private:
  struct Piece {
    torch::Tensor data;    // split where images are cut
    torch::Tensor target;  // split where it is of pixels
    double weight = 0;     // of a row's loss
  };

  void seed_step(std::int64_t step) const;
  std::string find_in_piece(const Piece& piece);
  std::set<std::string> find_infinite_buffers() const;
  void make_parallel(TraceWriter* trace);
  ParallelConfig planned_parallel();
  parallel::FixedRoutes planned_routes() const;
  void use_plan();
  // For operators that go by the plan; null without one.
  std::unique_ptr<parallel::MixedPrecision::Scope> plan_scope();
  // As the network gets them: this rank's tiles, or what it cuts them from.
  torch::Tensor images_of(const data::Batch& batch, std::int64_t first,
                          std::int64_t rows) const;
  torch::Tensor targets_of(const data::Batch& batch, std::int64_t first,
                           std::int64_t rows) const;
  Piece piece_of(const data::Batch& batch, std::int64_t first,
                 std::int64_t rows) const;
  // In how many pieces a step takes this rank's share, and one of them.
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
  std::optional<plan::ExchangePlan> ways_;           // as a plan tells them
  std::unique_ptr<parallel::Strategy> parallel_;     // null: one rank
  spatial::SpatialParallelCore* spatial_ = nullptr;  // it, if it is that
  comm::Group samples_;
  NamedTensors parameters_;             // each tensor once
  std::vector<torch::Tensor> resting_;  // those that stay
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<parallel::MixedPrecision> precision_;  // with a plan
  std::optional<parallel::LossScale> scale_;  // where the plan needs one
  bool has_finite_losses_ = true;             // of this rank, since compute()
  std::set<std::string> infinite_buffers_;    // from the start
};

}  // namespace sheaf::train
