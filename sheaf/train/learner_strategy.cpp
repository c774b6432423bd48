// The strategy that a run description asks for.
#include "sheaf/comm/collectives.hpp"
#include "sheaf/train/learner.hpp"
#include "sheaf/train/plan_setup.hpp"

namespace sheaf::train {
namespace {

std::shared_ptr<parallel::BucketExchange> exchange_for(
    const RunConfig& config) {
  const std::string& name = config.parallel.compression;
  if (name == "f16") return parallel::make_half_exchange(torch::kHalf);
  if (name == "bf16") return parallel::make_half_exchange(torch::kBFloat16);
  if (name != "powersgd") return nullptr;
  parallel::PowerSgdOptions options;
  options.rank = config.parallel.powersgd_rank;
  options.seed = static_cast<std::uint64_t>(config.seed);
  return parallel::make_power_sgd_exchange(options);
}

parallel::Route route_of(const std::string& name) {
  using parallel::Route;
  if (name == "dad") return Route::kDad;
  if (name == "edad") return Route::kEdad;
  return name == "rank-dad" ? Route::kRankDad : Route::kGradient;
}

parallel::DadOptions dad_options(const RunConfig& config) {
  const DadConfig& dad = config.dad;
  parallel::DadOptions options;
  if (config.parallel.strategy == "auto")
    options.mode = parallel::DadMode::kAuto;
  if (config.parallel.strategy == "edad")
    options.mode = parallel::DadMode::kEdad;
  if (config.parallel.strategy == "rank-dad")
    options.mode = parallel::DadMode::kRankDad;
  options.rank = dad.rank;
  options.tolerance = dad.tolerance;
  options.feedback_rows = dad.feedback_rows;
  options.is_two_way = dad.two_way;
  options.power_iterations = dad.power_iterations;
  options.allows_low_rank = dad.low_rank;
  options.has_trials = dad.trials;
  if (dad.where == "star") options.where = parallel::Where::kStar;
  if (dad.wire == "f16") options.wire = torch::kHalf;
  if (dad.wire == "bf16") options.wire = torch::kBFloat16;
  if (dad.zeros != "auto") options.skips_zeros = dad.zeros == "skip";
  options.first_layer_gradient = dad.first_layer == "gradient";
  for (const auto& [name, argument] : dad.routes)
    options.routes[name] = route_of(argument.values[0]);
  // A row counts by its part of the global batch already.
  options.average = parallel::Average::kRanks;
  options.bucket_mb = config.parallel.bucket_mb;
  return options;
}

}  // namespace

void Learner::make_parallel(TraceWriter* trace) {
  const ParallelConfig& wanted = config_.parallel;
  if (wanted.strategy == "none") return;
  if (wanted.strategy != "data" && wanted.strategy != "spatial") {
    parallel::DadOptions options = dad_options(config_);
    options.trace = trace;
    parallel_ = std::make_unique<parallel::DadParallelCore>(model_.module,
                                                            group_, options);
    return;
  }
  parallel::DataParallelOptions options;
  options.bucket_mb = wanted.bucket_mb;
  options.find_unused_parameters = wanted.find_unused;
  options.exchange = exchange_for(config_);
  options.trace = trace;
  if (wanted.strategy == "spatial") {
    auto spatial = std::make_unique<spatial::SpatialParallelCore>(
        model_.module, group_,
        spatial::SpatialOptions{
            .grid = wanted.grid, .data = options, .owns_filters = true});
    spatial_ = spatial.get();
    parallel_ = std::move(spatial);
    return;
  }
  parallel_ = std::make_unique<parallel::DataParallelCore>(model_.module,
                                                           group_, options);
}

std::unique_ptr<parallel::MixedPrecision::Scope> Learner::plan_scope() {
  using Scope = parallel::MixedPrecision::Scope;
  return precision_ ? std::make_unique<Scope>(*precision_) : nullptr;
}

void Learner::use_plan() {
  precision_.emplace(*model_.module, plan_for_all(config_, group_, device_));
  // Gradients of a rank without need are added to those of one with it.
  std::vector<std::int32_t> needing{precision_->needs_loss_scale() ? 1 : 0};
  comm::all_reduce(group_, needing, {.name = "loss scale of the plan"});
  if (needing[0] > 0) scale_.emplace();
}

}  // namespace sheaf::train
