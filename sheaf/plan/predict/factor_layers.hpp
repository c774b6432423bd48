#pragma once
// What dAD and its kin send and compute, by layer: estimates from a trace's
// shapes and from what its products took.
//
// With n rows of a worker, N of all of them, and a gradient's product of
// 2 n in out operations that took g:
//   dad       n (in + out) words, and N/n g after the exchange
//   edad      n in words where deltas follow from those of the layer above,
//             and the product with that layer's weight once more
//   rank-dad  r (in + out) words and the bias, the compression's products of
//             2 m^2 (in + out) + 3 m^3 operations, m being n and the rows that
//             are kept from the step before, at the rate of g, and r/n g for
//             each worker
// The worker's own product, g, is not computed in backward.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/plan/graph/step_profile.hpp"

namespace sheaf::plan {

// A layer whose gradient is a product of matrices.
struct FactorLayer {
  std::string name;
  std::vector<std::size_t> slots;  // its calls, in forward order
  double rows = 0;                 // of one worker, of all calls
  double in = 0;
  double out = 0;
  bool has_bias = false;
  // In `slots`' backward work: this part of it is the weight's gradient.
  std::vector<double> gradient_part;
  double gradient_ns = 0;
  // Deltas follow from those of this layer; -1: from none.
  std::int32_t above = -1;
};

// In forward order. `step` is what the profile's parts became (mix_step).
std::vector<FactorLayer> factor_layers(const StepProfile& profile,
                                       const StepGraph& step);
// The names of layers that can take factors at all.
std::vector<std::string> factor_layer_names(const StepProfile& profile);

// How many workers there are, by rank and by rows.
struct FactorScale {
  int workers = 2;
  double shares = 2;  // rows of all workers / rows of this one
};

class FactorCosts {
 public:
  FactorCosts(std::vector<FactorLayer> layers, const ExchangePlan& plan,
              const FactorScale& scale);

  const std::vector<FactorLayer>& layers() const { return layers_; }
  Exchange way(std::size_t layer) const { return ways_[layer]; }
  // Bytes of all workers; of inputs that leave in the forward pass, and of
  // what leaves in the backward pass.
  double forward_bytes(std::size_t layer) const;
  double backward_bytes(std::size_t layer) const;
  // Before it leaves, and when all has come.
  double compression_ns(std::size_t layer) const;
  double gradient_ns(std::size_t layer) const;

  // Layers whose messages go together, in the order in which they leave.
  using Parcels = std::vector<std::vector<std::size_t>>;
  Parcels forward_parcels() const;
  Parcels backward_parcels() const;

 private:
  bool follows(std::size_t layer) const;
  double low_rank_rows(const FactorLayer& layer) const;

  std::vector<FactorLayer> layers_;
  std::vector<Exchange> ways_;
  int rank_;
  FactorScale scale_;
};

}  // namespace sheaf::plan
