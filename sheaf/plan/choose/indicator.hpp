#pragma once
// The indicator: the estimated effect of a layer's precision on training, as
// the variance that rounding adds to gradients. docs/explanation/indicator.md
// derives the formulas.

#include <map>
#include <string>

#include "sheaf/plan/trace/model_graph.hpp"

namespace sheaf::plan {

enum class IndicatorKind {
  kVariance,   // squared norms, 2^(2e), longest paths
  kPublished,  // as QSync's program computes it
  kWeight,     // error of rounded weights only
  kHessian,    // that error times the curvature of the loss
};
// Parses "variance", "published", "weight" or "hessian"; throws UsageError for
// any other text.
IndicatorKind parse_indicator(const std::string& text);

// Whether the trace has the statistics that this kind of indicator needs.
bool has_statistics(const TracedModel& model, IndicatorKind kind);

class Indicator {
 public:
  Indicator() = default;  // without statistics: 0 for all layers
  // Throws UsageError if the trace lacks the statistics for this kind.
  Indicator(const TracedModel& model, const ModelGraph& graph,
            IndicatorKind kind);

  // 0 for f32. Layers without statistics (products of activations) get the mean
  // of the other layers.
  double of(const std::string& layer, Precision precision) const;
  double of(const PrecisionPlan& plan) const;  // sum over layers

 private:
  std::map<std::string, std::map<Precision, double>> values_;
};

}  // namespace sheaf::plan
