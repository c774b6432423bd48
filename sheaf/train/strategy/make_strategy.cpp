// Creates the parallel strategy that the config or its plan specifies.
#include "sheaf/base/log.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/train/setup/plan_setup.hpp"
#include "sheaf/train/strategy/dad_strategy.hpp"
#include "sheaf/train/strategy/spatial_strategy.hpp"

namespace sheaf::train {
namespace {

class DataStrategy : public TrainingStrategy {
 public:
  DataStrategy(const std::shared_ptr<torch::nn::Module>& module,
               const comm::Group& group,
               const parallel::DataParallelOptions& options)
      : TrainingStrategy(module, group),
        core_(std::make_unique<parallel::DataParallelCore>(module, group,
                                                           options)) {}

 private:
  parallel::Strategy* core() const override { return core_.get(); }

  std::unique_ptr<parallel::DataParallelCore> core_;
};

std::shared_ptr<parallel::BucketExchange> exchange_for(
    const RunConfig& config, const std::string& name) {
  if (name == "f16") return parallel::make_half_exchange(torch::kHalf);
  if (name == "bf16") return parallel::make_half_exchange(torch::kBFloat16);
  if (name != "powersgd") return nullptr;
  parallel::PowerSgdOptions options;
  options.rank = config.parallel.powersgd_rank;
  options.seed = static_cast<std::uint64_t>(config.seed);
  return parallel::make_power_sgd_exchange(options);
}

// A plan that specifies the exchange overrides the config.
ParallelConfig parallel_config(const RunConfig& config,
                               const std::optional<plan::ExchangePlan>& planned,
                               const comm::Group& group) {
  ParallelConfig wanted = config.parallel;
  if (!planned) return wanted;
  const bool is_bf16 = wanted.compression == "bf16";
  wanted.strategy =
      planned->has_any_factors() ? StrategyKind::kDad : StrategyKind::kData;
  wanted.compression = "none";
  if (planned->bulk() == plan::Route::kHalf)
    wanted.compression = is_bf16 ? "bf16" : "f16";
  const ParallelConfig& told = config.parallel;
  if (group.rank() == 0 && (told.strategy != StrategyKind::kData ||
                            told.compression != wanted.compression))
    log_warn(
        "the plan {} sets the exchange: {}; it overrides the config's strategy "
        "{} and compression {}",
        config.plan, to_string(*planned), name_of(told.strategy),
        told.compression);
  return wanted;
}

}  // namespace

std::unique_ptr<TrainingStrategy> make_strategy(
    const RunConfig& config, const std::shared_ptr<torch::nn::Module>& module,
    const comm::Group& group, TraceWriter* trace) {
  const auto planned = exchange_for_all(config, group);
  const ParallelConfig wanted = parallel_config(config, planned, group);
  if (wanted.strategy == StrategyKind::kNone)
    return std::make_unique<TrainingStrategy>(module, group);
  if (exchanges_factors(wanted.strategy)) {
    parallel::DadOptions options = dad_options(config, planned, *module);
    if (planned) options.exchange = exchange_for(config, wanted.compression);
    options.trace = trace;
    auto dad = std::make_unique<DadStrategy>(module, group, options);
    if (!config.dad.plan.empty())
      dad->fix_routes(fixed_routes_for_all(config, *module, group));
    return dad;
  }
  parallel::DataParallelOptions options;
  options.bucket_mb = wanted.bucket_mb;
  options.find_unused_parameters = wanted.find_unused;
  options.exchange = exchange_for(config, wanted.compression);
  options.trace = trace;
  if (!splits_images(wanted.strategy))
    return std::make_unique<DataStrategy>(module, group, options);
  return std::make_unique<SpatialStrategy>(
      module, group,
      std::make_unique<spatial::SpatialParallelCore>(
          module, group,
          spatial::SpatialOptions{
              .grid = wanted.grid,
              .owns_filters = true,
              .bucket_mb = options.bucket_mb,
              .find_unused_parameters = options.find_unused_parameters,
              .exchange = options.exchange,
              .trace = options.trace}));
}

}  // namespace sheaf::train
