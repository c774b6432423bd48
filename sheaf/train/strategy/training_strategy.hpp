#pragma once
// What a training asks of its parallel strategy. One class for each family of
// strategies answers; no other code depends on the strategy.

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/spatial/split/tiles.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

// Not thread-safe. All ranks must make the calls that communicate, in the same
// order. The base class answers for a rank that trains alone.
class TrainingStrategy {
 public:
  // The module and the group are kept.
  TrainingStrategy(std::shared_ptr<torch::nn::Module> module,
                   const comm::Group& group)
      : module_(std::move(module)), group_(group) {}
  virtual ~TrainingStrategy() = default;

  // The ranks that process different samples.
  virtual const comm::Group& samples() const { return group_; }

  // This rank's part of some rows of a batch, as input and as target of the
  // network.
  virtual at::Tensor input_part(const at::Tensor& images,
                                const data::Batch& batch) const;
  virtual at::Tensor target_part(const at::Tensor& target,
                                 const data::Batch& batch) const;
  // The target in the form in which it can be compared with this output.
  virtual at::Tensor target_for(const at::Tensor& output,
                                const at::Tensor& target) const;
  // The output in the form that metrics read.
  virtual at::Tensor output_for_metrics(const at::Tensor& output) const;
  // Whether this rank adds its samples to the metrics; others count the same
  // samples.
  virtual bool counts_samples() const { return true; }
  // Whether a rank has whole outputs and targets, whose shapes can be checked.
  virtual bool has_whole_outputs() const { return true; }
  // Whether layers exchange data during the passes.
  virtual bool exchanges_in_layers() const { return false; }

  // Calls `body`, which runs the network, as a part of the strategy.
  template <class Body>
  at::Tensor forward(const Body& body) {
    return core() ? core()->run_forward(body) : body();
  }
  // Takes part in the forward pass of the other ranks without any rows.
  void forward_nothing();
  // While `guard` holds a value, gradients are not exchanged.
  void stop_sync(std::optional<parallel::Strategy::NoSync>& guard);

  // Scales the gradients so that their norm is at most `max_norm`.
  virtual void clip_gradients(double max_norm);

  // Whether gradients are exchanged as factors, and the routes of parameters;
  // see DadParallelCore.
  virtual bool exchanges_factors() const { return false; }
  virtual std::vector<parallel::DadRoute> routes() const { return {}; }
  virtual parallel::FixedRoutes fixed_routes() const { return {}; }

  // A tensor with the sizes of a parameter, such as optimizer state, with the
  // values of the ranks that own them.
  virtual at::Tensor gather_owned(const at::Tensor& parameter,
                                  const at::Tensor& own) const;

  // From now on `listener` is called for each exchange within layers; null: no
  // longer.
  virtual void listen(spatial::Tiles::Listener listener,
                      spatial::Tiles::WeightNames names = {});

  // The following functions are those of parallel::Strategy.
  bool has_exchange() const { return core() != nullptr; }
  parallel::NamedTensors gather_state() const;
  void load_state(const parallel::NamedTensors& saved);
  void share_buffers();
  void check_weights() const;
  // The statistics since the last call.
  parallel::ExchangeStats take_stats();

 private:
  // Exchanges the gradients; null: there is nothing to exchange.
  virtual parallel::Strategy* core() const { return nullptr; }

  std::shared_ptr<torch::nn::Module> module_;
  comm::Group group_;
};

// Creates the strategy of the config, or the one that its plan requires, for a
// module that is already on its device. All ranks must call it together. The
// trace must outlive the strategy.
std::unique_ptr<TrainingStrategy> make_strategy(
    const RunConfig& config, const std::shared_ptr<torch::nn::Module>& module,
    const comm::Group& group, TraceWriter* trace);

}  // namespace sheaf::train
