#include "sheaf/train/setup/routes_file.hpp"

#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"

namespace sheaf::train {
namespace {

using nlohmann::ordered_json;
using parallel::Route;

Route route_named(const std::string& name, const std::string& file) {
  for (const Route route :
       {Route::kGradient, Route::kDad, Route::kEdad, Route::kRankDad})
    if (name == parallel::name_of(route)) return route;
  throw UsageError(concat(file, ": '", name,
                          "' is not a route; use gradient, dad, edad or "
                          "rank-dad"));
}

}  // namespace

std::string routes_text(const parallel::FixedRoutes& routes) {
  ordered_json names = ordered_json::object();
  for (const auto& [name, route] : routes.by_name)
    names[name] = parallel::name_of(route);
  return ordered_json{{"skips_zeros", routes.skips_zeros}, {"routes", names}}
             .dump(2) +
         "\n";
}

parallel::FixedRoutes parse_routes(const std::string& text,
                                   const std::string& file) {
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  SHEAF_CHECK(
      json.is_object() && json.contains("routes") &&
          json["routes"].is_object() &&
          json.value("skips_zeros", ordered_json()).is_boolean(),
      file,
      " is not a dad_plan.json file; give the one that a run with strategy: "
      "auto wrote to its folder");
  parallel::FixedRoutes routes;
  routes.skips_zeros = json["skips_zeros"];
  for (const auto& [name, route] : json["routes"].items()) {
    SHEAF_CHECK(route.is_string(), file, ": the route of ", name,
                " is not a string");
    routes.by_name[name] = route_named(route, file);
  }
  return routes;
}

}  // namespace sheaf::train
