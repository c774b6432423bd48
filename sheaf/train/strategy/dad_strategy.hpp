#pragma once
// Training with gradients that are exchanged as factors.

#include <optional>

#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/train/strategy/training_strategy.hpp"

namespace sheaf::train {

class DadStrategy : public TrainingStrategy {
 public:
  DadStrategy(const std::shared_ptr<torch::nn::Module>& module,
              const comm::Group& group, const parallel::DadOptions& options)
      : TrainingStrategy(module, group),
        core_(std::make_unique<parallel::DadParallelCore>(module, group,
                                                          options)) {}

  bool exchanges_factors() const override { return true; }
  std::vector<parallel::DadRoute> routes() const override {
    return core_->routes();
  }
  parallel::FixedRoutes fixed_routes() const override {
    return core_->fixed_routes();
  }
  // See DadParallelCore.
  void fix_routes(parallel::FixedRoutes routes) {
    core_->fix_routes(std::move(routes));
  }

 private:
  parallel::Strategy* core() const override { return core_.get(); }

  std::unique_ptr<parallel::DadParallelCore> core_;
};

// The options of a DadStrategy: those of the config, and the routes of the
// plan, if there is one.
parallel::DadOptions dad_options(
    const RunConfig& config, const std::optional<plan::ExchangePlan>& planned,
    const torch::nn::Module& module);

// The routes of the file dad.plan. Rank 0 reads it, so it need not exist on
// other hosts. Throws UsageError if it belongs to another network. All ranks
// must call it.
parallel::FixedRoutes fixed_routes_for_all(const RunConfig& config,
                                           torch::nn::Module& module,
                                           const comm::Group& group);

}  // namespace sheaf::train
