#pragma once
// How much a layer's precision disturbs training: an estimate of what rounding
// adds to the variance of gradients. docs/indicator.md derives the formulas.

#include <map>
#include <string>

#include "sheaf/plan/trace/model_graph.hpp"

namespace sheaf::plan {

enum class IndicatorKind {
  kVariance,   // squared norms, 2^(2e), longest paths
  kPublished,  // as QSync's program computes it
  kWeight,     // by the error of rounded weights alone
  kHessian,    // that error, times the curvature of the loss
};
// "variance", "published", "weight", "hessian"; UsageError for another text.
IndicatorKind parse_indicator(const std::string& text);

// Whether the trace tells what an indicator of this kind needs.
bool has_statistics(const TracedModel& model, IndicatorKind kind);

class Indicator {
 public:
  Indicator() = default;  // where nothing is known: 0 for all
  // UsageError where the model has no statistics, or none of this kind.
  Indicator(const TracedModel& model, const ModelGraph& graph,
            IndicatorKind kind);

  // 0 for f32; layers without statistics (products of activations) have the
  // mean of the others.
  double of(const std::string& layer, Precision precision) const;
  double of(const PrecisionPlan& plan) const;  // the sum over layers

 private:
  std::map<std::string, std::map<Precision, double>> values_;
};

}  // namespace sheaf::plan
