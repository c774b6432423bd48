#include "sheaf/plan/format/route_file.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::plan {

RouteFile parse_route_file(const std::string& text, const std::string& file,
                           const std::vector<std::string_view>& known) {
  const JsonSource source{file,
                          "give the dad_plan.json that a run with strategy: "
                          "auto wrote to its folder",
                          /*is_by_user=*/true};
  const nlohmann::json json = parse_json(text, source);
  const JsonValue root(json, source);
  RouteFile routes;
  routes.skips_zeros = root.at("skips_zeros").truth();
  for (const auto& [parameter, value] : root.at("routes").members()) {
    const std::string route = value.text();
    if (std::find(known.begin(), known.end(), route) == known.end())
      value.fail(concat("is '", printable(route, 40),
                        "', which is not a route; use ", join(known, ", ")));
    routes.by_parameter[parameter] = route;
  }
  return routes;
}

std::string text_of(const RouteFile& routes) {
  const nlohmann::ordered_json json{{"skips_zeros", routes.skips_zeros},
                                    {"routes", routes.by_parameter}};
  // A name that is not UTF-8 must not end a training.
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace sheaf::plan
