#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "sheaf/base/statistics.hpp"
#include "sheaf/report/page/page.hpp"

namespace sheaf::report {
namespace {

using nlohmann::json;

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// One layer, with one value per row of kind "layers".
struct LayerHistory {
  std::string name;
  std::string route;  // the latest
  std::vector<double> bytes, rank, exchange_ms, gradient_ms;
};

// Histories by name, in the order in which the names first occur.
class Histories {
 public:
  LayerHistory& of(const std::string& name) {
    const auto [place, is_new] = places_.try_emplace(name, layers_.size());
    if (is_new) {
      layers_.emplace_back();
      layers_.back().name = name;
    }
    return layers_[place->second];
  }
  std::vector<LayerHistory> take() { return std::move(layers_); }

 private:
  std::vector<LayerHistory> layers_;
  std::map<std::string, std::size_t> places_;
};

std::vector<LayerHistory> histories_of(const Run& run) {
  Histories layers;
  for (const Route& route : run.routes)
    layers.of(route.name).route = route.route;
  const std::size_t count = run.log.layers.size();
  for (std::size_t i = 0; i < count; ++i)
    for (const LayerUse& use : run.log.layers[i].layers) {
      LayerHistory& layer = layers.of(use.name);
      if (!use.route.empty()) layer.route = use.route;
      const auto put = [&](std::vector<double>& values, double value) {
        values.resize(count, kNoValue);
        values[i] = value;
      };
      put(layer.bytes, use.bytes);
      put(layer.rank, use.rank);
      put(layer.exchange_ms, use.exchange_ms);
      put(layer.gradient_ms, use.gradient_ms);
    }
  return layers.take();
}

json mean_of(const std::vector<double>& values) {
  const std::vector<double> means = thinned(values, values.size());
  return means.empty() ? json() : json_number(means[0]);
}

bool has_number(const std::vector<double>& values) {
  for (double value : values)
    if (!std::isnan(value)) return true;
  return false;
}

json json_of(const LayerHistory& layer, std::size_t every) {
  json object{{"name", layer.name},
              {"route", layer.route.empty() ? "not recorded" : layer.route},
              {"bytes", mean_of(layer.bytes)},
              {"exchange_ms", mean_of(layer.exchange_ms)},
              {"gradient_ms", mean_of(layer.gradient_ms)}};
  if (has_number(layer.rank))
    object["rank"] = json_numbers(thinned(layer.rank, every));
  return object;
}

void add_route(json& layer, const Route& route) {
  layer["reason"] = route.reason;
  layer["rows"] = json_number(route.rows);
  layer["in"] = json_number(route.in);
  layer["out"] = json_number(route.out);
}

}  // namespace

json page_layers_of(const Run& run, std::size_t max_points) {
  const std::vector<LayerHistory> histories = histories_of(run);
  if (histories.empty()) return nullptr;
  const std::size_t every = thinning(run.log.layers.size(), max_points);
  std::vector<double> steps;
  for (const LayerRow& row : run.log.layers) steps.push_back(row.step);
  std::map<std::string, const Route*> routes;
  for (const Route& route : run.routes) routes[route.name] = &route;
  json layers = json::array();
  for (const LayerHistory& layer : histories) {
    layers.push_back(json_of(layer, every));
    if (const auto route = routes.find(layer.name); route != routes.end())
      add_route(layers.back(), *route->second);
  }
  return {{"step", json_numbers(thinned(steps, every))},
          {"layers", std::move(layers)}};
}

}  // namespace sheaf::report
