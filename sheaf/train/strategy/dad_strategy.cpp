#include "sheaf/train/strategy/dad_strategy.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/module_tensors.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/setup/plan_setup.hpp"

namespace sheaf::train {
namespace {

parallel::Route route_of(const std::string& name) {
  using parallel::Route;
  if (name == "dad") return Route::kDad;
  if (name == "edad") return Route::kEdad;
  return name == "rank-dad" ? Route::kRankDad : Route::kGradient;
}

parallel::DadMode mode_of(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::kAuto:
      return parallel::DadMode::kAuto;
    case StrategyKind::kEdad:
      return parallel::DadMode::kEdad;
    case StrategyKind::kRankDad:
      return parallel::DadMode::kRankDad;
    default:
      return parallel::DadMode::kDad;
  }
}

// Weights that the plan does not name use its default exchange method.
void plan_routes(const plan::ExchangePlan& planned,
                 const torch::nn::Module& module,
                 parallel::DadOptions& options) {
  options.mode = parallel::DadMode::kDad;
  options.rank = planned.rank;
  options.has_trials = false;
  for (const auto& [name, layer] : weights_by_layer(module)) {
    const std::string route = to_string(planned.of(layer));
    if (planned.layers.contains(layer))
      options.planned[name] = route_of(route);
    else
      options.planned.emplace(name, route_of(route));
  }
}

}  // namespace

parallel::DadOptions dad_options(
    const RunConfig& config, const std::optional<plan::ExchangePlan>& planned,
    const torch::nn::Module& module) {
  const DadConfig& dad = config.dad;
  parallel::DadOptions options;
  options.mode = mode_of(config.parallel.strategy);
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
  if (planned) plan_routes(*planned, module, options);
  return options;
}

parallel::FixedRoutes fixed_routes_for_all(const RunConfig& config,
                                           torch::nn::Module& module,
                                           const comm::Group& group) {
  const std::string& file = config.dad.plan;
  const std::string text = from_root(group, [&] {
    const std::string read = read_whole(file);
    const auto routes = parse_routes(read, file);
    for (const auto& [name, tensor] : parallel::unique_parameters(module))
      SHEAF_CHECK(!tensor.requires_grad() || routes.by_name.contains(name),
                  config.where("dad.plan"), file, " has no route for ", name,
                  "; it belongs to another network");
    return read;
  });
  return parse_routes(text, file);
}

}  // namespace sheaf::train
