#pragma once
// Layers of an unmodified module in the precisions of a plan.
//
// A *layer* is a product whose precision can be chosen: a convolution, a linear
// layer, a product of matrices. Its inputs are cast, by operations that
// autograd knows, and it computes and is differentiated in its precision;
// weights, their gradients and the optimiser stay in f32. See
// docs/precision.md.

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "sheaf/plan/format/precision_plan.hpp"

namespace sheaf::parallel {

class PrecisionPass;
struct PrecisionSetting;

// The layers that a module's parameters make, by the names that a plan gives
// them, in the order of its parameters. Embeddings and recurrent layers, which
// stay in f32, are not among them. A weight that layers share is listed once.
std::vector<std::string> layers_of(const torch::nn::Module& module);

// UsageError for layers that the module has not, with names that are near, and
// for precisions that the device has not.
void check_plan(const torch::nn::Module& module,
                const plan::PrecisionPlan& plan, const torch::Device& device);

struct MixedPrecisionOptions {
  // int8: a scale for each of the weight's outputs; else one for all of it.
  bool scales_by_channel = true;
};

class MixedPrecision {
 public:
  // Parameters are f32, and on the device of the passes; else, and for what
  // check_plan() finds, UsageError. The module must outlive it.
  MixedPrecision(torch::nn::Module& module, plan::PrecisionPlan plan,
                 const MixedPrecisionOptions& options = {});
  ~MixedPrecision();
  MixedPrecision(MixedPrecision&&) noexcept;
  MixedPrecision& operator=(MixedPrecision&&) noexcept;

  // While it lives, operators of this thread go by the plan. It is to end, on
  // the thread that made it, before backward(), which needs none. Products of
  // activations are counted anew by each. The first one after a pass with
  // gradients does check_products().
  class [[nodiscard]] Scope {
   public:
    explicit Scope(MixedPrecision& precision);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::unique_ptr<PrecisionPass> pass_;
  };
  Scope forward_scope() { return Scope(*this); }

  // UsageError for products of activations ("matmul#9") that the plan names and
  // no pass has had, with those that there were.
  void check_products() const;

  const plan::PrecisionPlan& plan() const;
  // Whether gradients may be too small for a layer's type; see LossScale.
  bool needs_loss_scale() const;

 private:
  std::unique_ptr<PrecisionSetting> setting_;
};

}  // namespace sheaf::parallel
