#pragma once
// Weights for ranks with unequal numbers of rows. The gradients of a module's
// parameters are weighted by rows, those of its inputs are not: they belong to
// other parts of the program, or to forward() calls whose outputs are weighted
// separately.

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace sheaf::parallel {

// Returns the same values; the gradient is multiplied by `weight` as it passes
// into the module.
at::Tensor weighted_output(const at::Tensor& output, double weight);

// The inputs of one forward(); divides their gradients by the weight.
class UnweightedInputs {
 public:
  // Replaces the inputs that require gradients.
  void take(const std::vector<at::Tensor*>& inputs, double weight);
  // Restores the original inputs. Throws UsageError if one of them was modified
  // in place, because its owner would not see the change.
  void give_back(const std::vector<at::Tensor*>& inputs) const;

 private:
  struct Pair {
    at::Tensor given;
    at::Tensor used;
    std::uint32_t version = 0;
  };
  std::vector<Pair> pairs_;
};

}  // namespace sheaf::parallel
