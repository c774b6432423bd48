#include "sheaf/plan/format/exchange_plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/plan/format/precision_plan.hpp"

namespace sheaf::plan {
namespace {

constexpr std::array<std::pair<Route, const char*>, 5> kRoutes = {
    {{Route::kGradients, "gradients"},
     {Route::kHalf, "half"},
     {Route::kDad, "dad"},
     {Route::kEdad, "edad"},
     {Route::kRankDad, "rank-dad"}}};

int rank_of(const std::string& text) {
  int rank = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, rank);
  SHEAF_CHECK(error == std::errc() && at == end && rank >= 1,
              "the rank of rank-dad must be an integer of at least 1, not \"",
              printable(text, 40), "\"");
  return rank;
}

// Builds a plan entry by entry.
class ExchangeReader {
 public:
  void take_other(const std::string& text) { plan_.other = route_of(text); }
  void take(const std::string& layer, const std::string& text) {
    plan_.layers[layer] = route_of(text);
  }

  ExchangePlan finish() {
    bool has_gradients = plan_.other == Route::kGradients;
    bool has_half = plan_.other == Route::kHalf;
    for (const auto& [layer, route] : plan_.layers) {
      has_gradients |= route == Route::kGradients;
      has_half |= route == Route::kHalf;
    }
    SHEAF_CHECK(!has_gradients || !has_half,
                "gradients are sent in 16 bits for all layers or for none; "
                "make half the default, or remove it");
    if (rank_ > 0) plan_.rank = rank_;
    return plan_;
  }

 private:
  Route route_of(const std::string& text) {
    const auto colon = text.find(':');
    const std::string name = text.substr(0, colon);
    for (const auto& [route, known] : kRoutes)
      if (name == known || (route == Route::kRankDad && name == "low_rank")) {
        if (colon != std::string::npos) take_rank(route, text);
        return route;
      }
    throw UsageError(
        concat("unknown exchange \"", printable(text, 40),
               "\"; use gradients, half, dad, edad or rank-dad (rank-dad:8)"));
  }
  void take_rank(Route route, const std::string& text) {
    SHEAF_CHECK(route == Route::kRankDad, "only rank-dad has a rank, not ",
                text);
    const int rank = rank_of(text.substr(text.find(':') + 1));
    SHEAF_CHECK(rank_ == 0 || rank_ == rank, "rank-dad uses one rank for all ",
                "layers, but ", rank_, " and ", rank, " were given");
    rank_ = rank;
  }

  ExchangePlan plan_;
  int rank_ = 0;  // 0: not given
};

}  // namespace

const char* to_string(Route route) {
  for (const auto& [one, name] : kRoutes)
    if (one == route) return name;
  return "?";
}

Route ExchangePlan::bulk() const {
  for (const auto& [layer, route] : layers)
    if (route == Route::kHalf) return route;
  return other == Route::kHalf ? other : Route::kGradients;
}

bool ExchangePlan::has_any_factors() const {
  return has_factors(other) ||
         std::any_of(layers.begin(), layers.end(),
                     [](const auto& one) { return has_factors(one.second); });
}

ExchangePlan parse_exchange(const std::string& text) {
  ExchangeReader reader;
  bool has_other = false;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const auto equals = one.rfind('=');
    if (equals != std::string::npos) {
      reader.take(one.substr(0, equals), one.substr(equals + 1));
    } else {
      SHEAF_CHECK(!has_other, "\"", text, "\" has two defaults; ",
                  "give one, then LAYER=METHOD for the layers that differ");
      reader.take_other(one);
      has_other = true;
    }
    begin = end + 1;
  }
  return reader.finish();
}

std::string text_of(const ExchangePlan& plan, Route route) {
  if (route != Route::kRankDad) return to_string(route);
  return concat(to_string(route), ":", plan.rank);
}

std::string to_string(const ExchangePlan& plan) {
  std::string text = text_of(plan, plan.other);
  for (const auto& [layer, route] : plan.layers)
    if (route != plan.other)
      text += concat(",", layer, "=", text_of(plan, route));
  return text;
}

namespace {

ExchangePlan exchange_of(const JsonValue& value) {
  ExchangeReader reader;
  const auto checked = [](const JsonValue& at, const auto& use) {
    try {
      return use();
    } catch (const UsageError& error) {
      at.fail(concat("is not valid: ", error.what()));
    }
  };
  reader.take_other("gradients");
  if (const auto other = value.find("default"))
    checked(*other, [&] { reader.take_other(other->text()); });
  if (const auto layers = value.find("layers"))
    for (const auto& [layer, route] : layers->members())
      checked(route, [&, &name = layer, &how = route] {
        reader.take(name, how.text());
      });
  return checked(value, [&] { return reader.finish(); });
}

}  // namespace

std::optional<ExchangePlan> parse_exchange_of(const std::string& text,
                                              const std::string& name) {
  const JsonSource source = plan_source(name);
  const nlohmann::json json = parse_json(text, source);
  const auto exchange = JsonValue(json, source).find("exchange");
  if (!exchange) return std::nullopt;
  return exchange_of(*exchange);
}

void check_exchange_layers(const ExchangePlan& plan,
                           const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  for (const auto& [layer, route] : plan.layers)
    SHEAF_CHECK(std::find(views.begin(), views.end(), layer) != views.end(),
                "an exchange is given for '", layer, "', but the model has no ",
                "such layer", did_you_mean(layer, views));
}

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
