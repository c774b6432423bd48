#pragma once
// What ranks send of each layer's gradient: plain data that the planner writes
// and a run reads.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sheaf::plan {

// The names are those of a run's strategies and routes; docs/dad.md tells what
// each sends.
enum class Exchange {
  kGradients,  // averages, in f32
  kHalf,       // the same in 16 bits
  kDad,        // inputs and deltas of a product
  kEdad,       // inputs; deltas only where they do not follow from others
  kRankDad,    // inputs and deltas of few rows
};

// "gradients", "half", "dad", "edad", "rank-dad".
const char* to_string(Exchange way);
inline bool has_factors(Exchange way) { return way >= Exchange::kDad; }
// The step is that of the gradients, but for the order of sums.
inline bool is_exact(Exchange way) {
  return way != Exchange::kHalf && way != Exchange::kRankDad;
}

struct ExchangePlan {
  std::map<std::string, Exchange> layers;  // named as in a PrecisionPlan
  Exchange other = Exchange::kGradients;   // of layers that are not named
  int rank = 4;                            // rows of rank-dad, in all layers

  Exchange of(const std::string& layer) const {
    const auto found = layers.find(layer);
    return found == layers.end() ? other : found->second;
  }
  // Of what factors cannot be sent for: gradients or half.
  Exchange bulk() const;
  bool has_any_factors() const;
  bool operator==(const ExchangePlan&) const = default;
};

// "gradients", "rank-dad:8" (also "low_rank:8"), "gradients,fc1=dad,fc2=edad":
// the way of all layers, then those of some. UsageError says what is wrong.
ExchangePlan parse_exchange(const std::string& text);
// The same text; of one way: with its rank.
std::string to_string(const ExchangePlan& plan);
std::string text_of(const ExchangePlan& plan, Exchange way);

// That of a plan.json: {"exchange": {"default": "gradients", "layers": {"fc1":
// "dad"}}}; none where it tells none. IoError with the file's name for one
// that is damaged.
std::optional<ExchangePlan> parse_exchange_of(const std::string& text,
                                              const std::string& name);

// UsageError for a layer that is not among those, with one that is near.
void check_exchange_layers(const ExchangePlan& plan,
                           const std::vector<std::string>& known);

}  // namespace sheaf::plan
