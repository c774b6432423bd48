#pragma once
// What dAD and its variants send and compute for each layer, estimated from the
// shapes in a trace and the measured times of its products. Sizes and parcels
// follow the rules of a run: parcel_rules.hpp.
//
// Let a worker have n rows and all workers N, and let g be the time of the
// product for the gradient, 2 n in out operations. Costs:
//   dad       n (in + out) words, and N/n g after the exchange
//   edad      n in words if deltas follow from those of the layer above, plus
//             another product with that layer's weight
//   rank-dad  r (in + out) words and the bias; the compression's products of
//             2 m^2 (in + out) + 3 m^3 operations at the rate of g, where m is
//             n plus the rows kept from the step before; and r/n g for each
//             worker
// The worker's own product, g, is not computed in backward.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/plan/format/parcel_rules.hpp"
#include "sheaf/plan/graph/step_profile.hpp"

namespace sheaf::plan {

// A layer whose gradient is a matrix product.
struct FactorLayer {
  std::string name;
  std::vector<std::size_t> slots;  // its calls, in forward order
  double rows = 0;                 // of one worker, over all calls
  double in = 0;
  double out = 0;
  bool has_bias = false;
  // For each of `slots`: the fraction of its backward work that computes the
  // weight's gradient.
  std::vector<double> gradient_part;
  double gradient_ns = 0;
  // Index of the layer from which deltas can be derived; -1: none.
  std::int32_t above = -1;
};

// In forward order. `step` is the step composed from the profile (mix_step).
std::vector<FactorLayer> factor_layers(const StepProfile& profile,
                                       const StepGraph& step);
// Names of the layers that can send factors.
std::vector<std::string> factor_layer_names(const StepProfile& profile);

// Number of workers, and their share of rows.
struct FactorScale {
  int workers = 2;
  double shares = 2;  // rows of all workers / rows of this one
};

class FactorCosts {
 public:
  FactorCosts(std::vector<FactorLayer> layers, const ExchangePlan& plan,
              const FactorScale& scale);

  const std::vector<FactorLayer>& layers() const { return layers_; }
  Route route(std::size_t layer) const { return routes_[layer]; }
  // Bytes over all workers: of inputs sent in the forward pass, and of data
  // sent in the backward pass.
  double forward_bytes(std::size_t layer) const;
  double backward_bytes(std::size_t layer) const;
  // Time before sending, and time after everything is received.
  double compression_ns(std::size_t layer) const;
  double gradient_ns(std::size_t layer) const;

  // The parcels that a run sends, as indices of layers.
  ParcelPlan parcels() const;

 private:
  FactorShape shape(std::size_t layer) const;
  bool follows(std::size_t layer) const;

  std::vector<FactorLayer> layers_;
  std::vector<Route> routes_;
  int rank_;
  FactorScale scale_;
};

}  // namespace sheaf::plan
