#include "sheaf/plan/choose/indicator.hpp"

#include <algorithm>
#include <cmath>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

// Weight of forward errors, which propagate through the forward pass, relative
// to backward errors.
constexpr double kForwardWeight = 4;
constexpr double kLargestInt8 = 127;
// Upper bound of exponents in QSync's published program.
constexpr int kLargestExponent = 5;

constexpr Precision kLower[] = {Precision::kTf32, Precision::kBf16,
                                Precision::kF16, Precision::kInt8};

// Rounding changes a float by at most 2^-k of its power of two. k is one less
// than the number of mantissa bits because of rounding to nearest.
int rounding_bits(Precision precision) {
  return precision == Precision::kBf16 ? 6 : 9;
}

double step_of(const TensorStatistics& tensor) {
  return tensor.largest / kLargestInt8;
}
double norm(const TensorStatistics& tensor) { return std::sqrt(tensor.square); }

int exponent_of(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return exponent;
}
double typical(const TensorStatistics& tensor) {
  return tensor.elements > 0 ? std::sqrt(tensor.square / tensor.elements) : 0;
}

struct Errors {
  double forward = 0;
  double backward = 0;
};

// Var(q(x)) of one element x with the tensor's root mean square value.
double variance(const TensorStatistics& tensor, Precision precision) {
  if (precision == Precision::kInt8)
    return step_of(tensor) * step_of(tensor) / 6;
  const double power = std::ldexp(1.0, exponent_of(typical(tensor)));
  const double step = std::ldexp(power, -rounding_bits(precision));
  return step * step / 6;
}

// The backward pass of an int8 layer is in f16.
Precision backward_of(Precision precision) {
  return precision == Precision::kInt8 ? Precision::kF16 : precision;
}

Errors corrected(const LayerStatistics& s, Precision precision) {
  const Precision low = backward_of(precision);
  return {
      s.weight.square * variance(s.input, precision) * s.input.elements +
          s.input.square * variance(s.weight, precision) * s.weight.elements,
      s.weight_gradient.square * variance(s.input, precision) *
              s.input.elements +
          s.input.square * variance(s.output_gradient, low) *
              s.output.elements};
}

int published_exponent(double value) {
  return std::min(std::abs(exponent_of(value)), kLargestExponent);
}

Errors published(const LayerStatistics& s, Precision precision) {
  const double e_v =
      published_exponent(std::sqrt(norm(s.input) / s.input.elements));
  const double e_w =
      published_exponent(std::sqrt(norm(s.weight) / s.weight.elements));
  const double e_g = published_exponent(s.weight_gradient.largest);
  const double epsilon = std::ldexp(1.0, -2 * rounding_bits(precision));
  if (precision == Precision::kInt8) {
    const double s_v = step_of(s.input) * step_of(s.input);
    const double s_w = step_of(s.weight) * step_of(s.weight);
    return {(norm(s.weight) * s_v * s.input.elements +
             norm(s.input) * s_w * s.weight.elements) /
                6,
            (norm(s.weight_gradient) * s_v * s.input.elements +
             norm(s.input) * std::exp2(2 * e_v) * epsilon * s.output.elements) /
                6};
  }
  return {epsilon / 6 *
              (norm(s.weight) * s.input.elements * e_v +
               norm(s.input) * s.weight.elements * e_w),
          epsilon / 6 *
              (norm(s.weight_gradient) * s.input.elements * e_v +
               norm(s.input) * s.output.elements * e_g)};
}

double value_of(const LayerStatistics& s, Precision precision, int depth,
                int deepest, IndicatorKind kind) {
  switch (kind) {
    case IndicatorKind::kWeight:
    case IndicatorKind::kHessian: {
      const double error = variance(s.weight, precision) * s.weight.elements;
      if (kind == IndicatorKind::kWeight) return error / s.weight.square;
      return std::abs(s.curvature) / s.weight.elements * error / 2;
    }
    case IndicatorKind::kVariance:
    case IndicatorKind::kPublished: {
      const Errors errors = kind == IndicatorKind::kPublished
                                ? published(s, precision)
                                : corrected(s, precision);
      return kForwardWeight * (deepest - depth) * errors.forward +
             depth * errors.backward;
    }
  }
  return 0;
}

}  // namespace

IndicatorKind parse_indicator(const std::string& text) {
  if (text == "variance") return IndicatorKind::kVariance;
  if (text == "published") return IndicatorKind::kPublished;
  if (text == "weight") return IndicatorKind::kWeight;
  if (text == "hessian") return IndicatorKind::kHessian;
  throw UsageError(concat("unknown indicator \"", text,
                          "\"; use variance, published, weight or hessian"));
}

bool has_statistics(const TracedModel& model, IndicatorKind kind) {
  if (kind != IndicatorKind::kHessian) return !model.statistics.empty();
  return std::any_of(model.statistics.begin(), model.statistics.end(),
                     [](const auto& one) { return one.second.curvature != 0; });
}

Indicator::Indicator(const TracedModel& model, const ModelGraph& graph,
                     IndicatorKind kind) {
  SHEAF_CHECK(!model.statistics.empty(),
              "the trace has no layer statistics; record it again with sheaf "
              "trace CONFIG");
  SHEAF_CHECK(has_statistics(model, kind),
              "the trace does not record the curvature of the loss; record it "
              "again with sheaf trace CONFIG --curvature 100, or use "
              "--indicator variance");
  // Statistics are sums over the calls of a layer; each call is a slot.
  std::map<std::string, double> calls;
  for (const Slot& slot : graph.slots) calls[slot.layer] += 1;
  std::map<Precision, double> sums;
  for (const Slot& slot : graph.slots) {
    const auto found = model.statistics.find(slot.layer);
    if (slot.layer.empty() || found == model.statistics.end() ||
        found->second.weight.elements == 0)
      continue;
    for (const Precision one : kLower) {
      const double value =
          value_of(found->second, one, slot.depth, graph.depth, kind) /
          calls[slot.layer];
      values_[slot.layer][one] += value;
      sums[one] += value;
    }
  }
  const auto known =
      static_cast<double>(std::max<std::size_t>(1, values_.size()));
  for (const Slot& slot : graph.slots)
    if (!slot.layer.empty() && !values_.contains(slot.layer))
      for (const auto& [precision, sum] : sums)
        values_[slot.layer][precision] = sum / known;
}

double Indicator::of(const std::string& layer, Precision precision) const {
  if (precision == Precision::kF32) return 0;
  const auto found = values_.find(layer);
  return found == values_.end() ? 0 : found->second.at(precision);
}

double Indicator::of(const PrecisionPlan& plan) const {
  double sum = 0;
  for (const auto& [layer, values] : values_) sum += of(layer, plan.of(layer));
  return sum;
}

}  // namespace sheaf::plan
