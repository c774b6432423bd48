// Creates the parallel strategy that the config or its plan specifies.
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/module_tensors.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/loop/learner.hpp"
#include "sheaf/train/setup/plan_setup.hpp"
#include "sheaf/train/setup/routes_file.hpp"

namespace sheaf::train {
namespace {

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
  // Rows are already weighted by their share of the global batch.
  options.average = parallel::Average::kRanks;
  options.bucket_mb = config.parallel.bucket_mb;
  options.find_unused_parameters = true;
  return options;
}

// Weights that the plan does not name use its default exchange method.
void plan_routes(const plan::ExchangePlan& ways,
                 const torch::nn::Module& module,
                 parallel::DadOptions& options) {
  options.mode = parallel::DadMode::kDad;
  options.rank = ways.rank;
  options.has_trials = false;
  for (const auto& [name, layer] : weights_by_layer(module)) {
    const std::string way = to_string(ways.of(layer));
    if (ways.layers.contains(layer))
      options.planned[name] = route_of(way);
    else
      options.planned.emplace(name, route_of(way));
  }
}

}  // namespace

// A plan that specifies the exchange overrides the config.
ParallelConfig Learner::planned_parallel() {
  ParallelConfig wanted = config_.parallel;
  ways_ = exchange_for_all(config_, group_);
  if (!ways_) return wanted;
  const bool is_bf16 = wanted.compression == "bf16";
  wanted.strategy = ways_->has_any_factors() ? "dad" : "data";
  wanted.compression = "none";
  if (ways_->bulk() == plan::Exchange::kHalf)
    wanted.compression = is_bf16 ? "bf16" : "f16";
  const ParallelConfig& told = config_.parallel;
  if (group_.rank() == 0 &&
      (told.strategy != "data" || told.compression != wanted.compression))
    log_warn(
        "the plan {} sets the exchange: {}; it overrides the config's strategy "
        "{} and compression {}",
        config_.plan, to_string(*ways_), told.strategy, told.compression);
  return wanted;
}

void Learner::make_parallel(TraceWriter* trace) {
  const ParallelConfig wanted = planned_parallel();
  if (wanted.strategy == "none") return;
  if (wanted.strategy != "data" && wanted.strategy != "spatial") {
    parallel::DadOptions options = dad_options(config_);
    if (ways_) plan_routes(*ways_, *model_.module, options);
    if (ways_) options.exchange = exchange_for(config_, wanted.compression);
    options.trace = trace;
    auto dad = std::make_unique<parallel::DadParallelCore>(model_.module,
                                                           group_, options);
    if (!config_.dad.plan.empty()) dad->fix_routes(planned_routes());
    parallel_ = std::move(dad);
    return;
  }
  parallel::DataParallelOptions options;
  options.bucket_mb = wanted.bucket_mb;
  options.find_unused_parameters = wanted.find_unused;
  options.exchange = exchange_for(config_, wanted.compression);
  options.trace = trace;
  if (wanted.strategy == "spatial") {
    auto spatial = std::make_unique<spatial::SpatialParallelCore>(
        model_.module, group_,
        spatial::SpatialOptions{
            .grid = wanted.grid,
            .owns_filters = true,
            .bucket_mb = options.bucket_mb,
            .find_unused_parameters = options.find_unused_parameters,
            .exchange = options.exchange,
            .trace = options.trace});
    spatial_ = spatial.get();
    parallel_ = std::move(spatial);
    return;
  }
  parallel_ = std::make_unique<parallel::DataParallelCore>(model_.module,
                                                           group_, options);
}

// Rank 0 reads the file, so it need not exist on other hosts.
parallel::FixedRoutes Learner::planned_routes() const {
  const std::string& file = config_.dad.plan;
  const std::string text = from_root(group_, [&] {
    const std::string read = read_whole(file);
    const auto routes = parse_routes(read, file);
    for (const auto& [name, tensor] :
         parallel::unique_parameters(*model_.module))
      SHEAF_CHECK(!tensor.requires_grad() || routes.by_name.contains(name),
                  config_.where("dad.plan"), file, " has no route for ", name,
                  "; it belongs to another network");
    return read;
  });
  return parse_routes(text, file);
}

std::unique_ptr<parallel::MixedPrecision::Scope> Learner::plan_scope() {
  using Scope = parallel::MixedPrecision::Scope;
  return precision_ ? std::make_unique<Scope>(*precision_) : nullptr;
}

void Learner::use_plan() {
  precision_.emplace(*model_.module, plan_for_all(config_, group_, device_));
  // All ranks scale the loss if one needs it, because their gradients are
  // summed.
  std::vector<std::int32_t> needing{precision_->needs_loss_scale() ? 1 : 0};
  comm::all_reduce(group_, needing, {.name = "loss scale of the plan"}).wait();
  if (needing[0] > 0) scale_.emplace();
}

}  // namespace sheaf::train
