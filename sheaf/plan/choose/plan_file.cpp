#include <nlohmann/json.hpp>

#include "sheaf/plan/choose/planner.hpp"

namespace sheaf::plan {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const PrecisionPlan& plan) {
  Json layers = Json::object();
  for (const auto& [layer, precision] : plan.layers)
    layers[layer] = to_string(precision);
  return {{"other", to_string(plan.other)}, {"layers", layers}};
}

double ms(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }

Json json_of(const ClusterStep& step, double indicator) {
  Json kinds = Json::array();
  for (std::size_t i = 0; i < step.kind_ns.size(); ++i)
    kinds.push_back({{"step_ms", ms(step.kind_ns[i])},
                     {"waits_ms", ms(step.waits_ns[i])},
                     {"peak_bytes", step.memory[i].peak()},
                     {"forward_bytes", step.memory[i].forward},
                     {"backward_bytes", step.memory[i].backward},
                     {"optimizer_bytes", step.memory[i].rest}});
  return {{"step_ms", ms(step.ns)},
          {"exchange_ms", ms(step.exchange_ns)},
          {"indicator", indicator},
          {"kinds", kinds}};
}

Json json_of(const ChosenExchange& chosen) {
  const ExchangePlan& plan = chosen.plan;
  Json layers = Json::object();
  for (const auto& [layer, route] : plan.layers)
    layers[layer] = text_of(plan, route);
  Json uniform = Json::object();
  for (const auto& [name, ns] : chosen.uniform) uniform[name] = ms(ns);
  return {{"default", text_of(plan, plan.other)},
          {"layers", layers},
          {"reasons", chosen.reasons},
          {"uniform_step_ms", uniform}};
}

Json trade_offs_of(const ChosenPlan& chosen) {
  Json list = Json::array();
  for (const TradeOff& one : chosen.trade_offs)
    list.push_back({{"layer", one.layer},
                    {"kind", one.kind},
                    {"precision", to_string(one.precision)},
                    {"step_ms", ms(one.ns)},
                    {"indicator", one.indicator},
                    {"is_kept", one.is_kept}});
  return list;
}

}  // namespace

std::string plan_text(const Cluster& cluster, const ChosenPlan& chosen) {
  Json devices = Json::array();
  for (std::size_t i = 0; i < chosen.plans.size(); ++i) {
    const StepProfile& base = cluster.kinds[i].recorded->base();
    devices.push_back({{"device", base.device_name},
                       {"workers", cluster.kinds[i].count},
                       {"precision", json_of(chosen.plans[i])},
                       {"reasons", chosen.reasons[i]}});
    if (!base.scaled_from.empty())
      devices.back()["scaled_from"] = base.scaled_from;
  }
  Json uniform = Json::object();
  for (const UniformStep& one : chosen.uniform)
    uniform[to_string(one.precision)] = json_of(one.step, one.indicator);
  Json root{{"version", 1},
            {"model", cluster.kinds[0].recorded->model().name},
            {"precision", json_of(chosen.plans[0])},
            {"devices", devices},
            {"predicted", json_of(chosen.step, chosen.indicator)},
            {"fastest", json_of(chosen.fastest, chosen.fastest_indicator)},
            {"uniform", uniform},
            {"trade_offs", trade_offs_of(chosen)}};
  if (cluster.workers() > 1) root["exchange"] = json_of(chosen.exchange);
  return root.dump(1) + "\n";
}

}  // namespace sheaf::plan
