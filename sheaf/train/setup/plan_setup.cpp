#include "sheaf/train/setup/plan_setup.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/cast_kernels.hpp"
#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/topo/host.hpp"
#include "sheaf/train/files/from_root.hpp"

namespace sheaf::train {
namespace {

void check_exchange(const std::string& text, const RunConfig& config,
                    const torch::nn::Module& module) {
  const auto routes = plan::parse_exchange_of(text, config.plan);
  if (!routes) return;
  std::vector<std::string> layers;
  for (const auto& [name, layer] : weights_by_layer(module))
    layers.push_back(layer);
  plan::check_exchange_layers(*routes, layers);
}

}  // namespace

void check_plan(const RunConfig& config, const torch::nn::Module& module,
                const comm::Group& group, const torch::Device& device) {
  if (config.plan.empty()) return;
  const auto check = [&](const std::string& text) {
    try {
      parallel::check_plan(
          module,
          plan::parse_precision_plan(text, config.plan, name_of(device)),
          device);
      check_exchange(text, config, module);
    } catch (const UsageError& error) {
      throw UsageError(
          concat(config.where("plan"), config.plan, ": ", error.what()));
    }
  };
  // First on rank 0, so that an error common to all ranks is reported once.
  const std::string text = from_root(group, [&] {
    const std::string read = plan::read_plan_text(config.plan);
    check(read);
    return read;
  });
  from_all(group, 0, [&] {
    check(text);
    return std::vector<std::int64_t>{};
  });
}

plan::PrecisionPlan plan_for_all(const RunConfig& config,
                                 const comm::Group& group,
                                 const torch::Device& device) {
  const std::string text =
      from_root(group, [&] { return plan::read_plan_text(config.plan); });
  return plan::parse_precision_plan(text, config.plan, name_of(device));
}

std::optional<plan::ExchangePlan> exchange_for_all(const RunConfig& config,
                                                   const comm::Group& group) {
  if (config.plan.empty() || group.size() == 1) return std::nullopt;
  const std::string text =
      from_root(group, [&] { return plan::read_plan_text(config.plan); });
  return plan::parse_exchange_of(text, config.plan);
}

std::vector<std::pair<std::string, std::string>> weights_by_layer(
    const torch::nn::Module& module) {
  constexpr std::string_view kWeight = ".weight";
  std::map<const void*, std::string> first;
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& entry : module.named_parameters()) {
    const torch::Tensor& tensor = entry.value();
    if (!tensor.defined() || !tensor.requires_grad() || tensor.dim() < 2)
      continue;
    std::string layer = entry.key();
    if (layer.ends_with(kWeight)) layer.resize(layer.size() - kWeight.size());
    const std::string& name =
        first.emplace(tensor.unsafeGetTensorImpl(), entry.key()).first->second;
    list.emplace_back(name, std::move(layer));
  }
  return list;
}

std::string name_of(const torch::Device& device) {
  if (!device.is_cuda()) return topo::processor_name();
  return parallel::cast_kernels::device_name(std::max<int>(0, device.index()));
}

namespace {

constexpr parallel::Route kKnownRoutes[] = {
    parallel::Route::kGradient, parallel::Route::kDad, parallel::Route::kEdad,
    parallel::Route::kRankDad};

}  // namespace

std::string routes_text(const parallel::FixedRoutes& routes) {
  plan::RouteFile file{{}, routes.skips_zeros};
  for (const auto& [name, route] : routes.by_name)
    file.by_parameter[name] = parallel::name_of(route);
  return plan::text_of(file);
}

parallel::FixedRoutes parse_routes(const std::string& text,
                                   const std::string& file) {
  std::vector<std::string_view> names;
  for (const parallel::Route route : kKnownRoutes)
    names.emplace_back(parallel::name_of(route));
  const plan::RouteFile read = plan::parse_route_file(text, file, names);
  parallel::FixedRoutes routes{{}, read.skips_zeros};
  for (const auto& [name, text_of_route] : read.by_parameter)
    for (const parallel::Route route : kKnownRoutes)
      if (text_of_route == parallel::name_of(route))
        routes.by_name[name] = route;
  return routes;
}

}  // namespace sheaf::train
