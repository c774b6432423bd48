#pragma once
// Runs the layers of an unmodified module in the precisions of a plan.
//
// A *layer* is a product whose precision can be chosen: a convolution, a linear
// layer, a matrix product. Its inputs are cast by differentiable operations,
// and the layer is computed and differentiated in its precision. Weights, their
// gradients and the optimizer stay in f32. See docs/reference/precision.md.

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "sheaf/plan/format/precision_plan.hpp"

namespace sheaf::parallel {

class PrecisionPass;
struct PrecisionSetting;

// The layers of a module, by the names that a plan uses, in the order of the
// module's parameters. Embeddings and recurrent layers, which stay in f32, are
// not included. A weight shared by several layers is listed once.
std::vector<std::string> layers_of(const torch::nn::Module& module);

// Throws UsageError if the plan contains layers that the module does not have
// (the message lists similar names), or precisions that the device does not
// support.
void check_plan(const torch::nn::Module& module,
                const plan::PrecisionPlan& plan, const torch::Device& device);

struct MixedPrecisionOptions {
  // int8: one scale per output of the weight; otherwise one for the whole
  // weight.
  bool scales_by_channel = true;
};

class MixedPrecision {
 public:
  // All parameters must be f32 and on the device of the passes. Throws
  // UsageError otherwise, and in the cases of check_plan(). The module must
  // outlive this object.
  MixedPrecision(torch::nn::Module& module, plan::PrecisionPlan plan,
                 const MixedPrecisionOptions& options = {});
  ~MixedPrecision();
  MixedPrecision(MixedPrecision&&) noexcept;
  MixedPrecision& operator=(MixedPrecision&&) noexcept;

  // While it exists, operators of this thread use the precisions of the plan.
  // It must be destroyed on the thread that created it, before backward(),
  // which does not need it. Products of activations are counted from zero in
  // each scope. The first scope after a pass with gradients calls
  // check_products().
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

  // Throws UsageError if the plan contains products of activations ("matmul#9")
  // that no pass has had; the message lists those that occurred.
  void check_products() const;

  const plan::PrecisionPlan& plan() const;
  // Whether gradients may be too small for the type of a layer; see LossScale.
  bool needs_loss_scale() const;

 private:
  std::unique_ptr<PrecisionSetting> setting_;
};

}  // namespace sheaf::parallel
