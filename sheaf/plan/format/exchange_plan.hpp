#pragma once
// The exchange plan: what ranks send for the gradient of each layer. Plain data
// that the planner writes and a run reads.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::plan {

// How the gradient of a layer is exchanged. The names are those of a run's
// strategies and routes; docs/explanation/dad.md describes what each sends.
enum class Route {
  kGradients,  // all-reduced in f32
  kHalf,       // all-reduced in 16 bits
  kDad,        // the inputs and deltas of a matrix product
  kEdad,       // inputs, and deltas that cannot be derived
  kRankDad,    // low-rank inputs and deltas
};

// "gradients", "half", "dad", "edad", "rank-dad".
const char* to_string(Route route);
inline bool has_factors(Route route) { return route >= Route::kDad; }
// Whether the step is the same as with gradients, except for the order of sums.
inline bool is_exact(Route route) {
  return route != Route::kHalf && route != Route::kRankDad;
}

struct ExchangePlan {
  std::map<std::string, Route> layers;  // named as in a PrecisionPlan
  Route other = Route::kGradients;      // layers that are not named
  int rank = 4;                         // rank of rank-dad, for all layers

  Route of(const std::string& layer) const {
    const auto found = layers.find(layer);
    return found == layers.end() ? other : found->second;
  }
  // Method for gradients that are not sent as factors: gradients or half.
  Route bulk() const;
  bool has_any_factors() const;
  bool operator==(const ExchangePlan&) const = default;
};

// Parses "gradients", "rank-dad:8" (also "low_rank:8") or
// "gradients,fc1=dad,fc2=edad": the default, then layers that differ. Throws a
// UsageError that describes the fault.
ExchangePlan parse_exchange(const std::string& text);
// Inverse of parse_exchange(). text_of() formats one method, with its rank.
std::string to_string(const ExchangePlan& plan);
std::string text_of(const ExchangePlan& plan, Route route);

// The exchange plan in the text of a plan.json: {"exchange": {"default":
// "gradients", "layers": {"fc1": "dad"}}}; nullopt if it has none. Throws an
// IoError with the file's name if the text is damaged.
std::optional<ExchangePlan> parse_exchange_of(const std::string& text,
                                              const std::string& name);

// Throws UsageError for a layer that is not in `known`, with a similar name.
void check_exchange_layers(const ExchangePlan& plan,
                           const std::vector<std::string>& known);

// The routes that a run with strategy auto has chosen: its dad_plan.json.
struct RouteFile {
  std::map<std::string, std::string> by_parameter;  // names of routes
  bool skips_zeros = false;
};

// Throws a UsageError that names `file`, and the key, if the text is not in
// this format or a route is not among `known`.
RouteFile parse_route_file(const std::string& text, const std::string& file,
                           const std::vector<std::string_view>& known);
std::string text_of(const RouteFile& routes);

}  // namespace sheaf::plan
