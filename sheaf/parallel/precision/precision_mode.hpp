#pragma once
// A forward pass under a plan: handles each operator in the dispatcher.

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <map>
#include <set>
#include <string>

#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/parallel/precision/precision_names.hpp"
#include "sheaf/parallel/precision/precision_rules.hpp"

namespace sheaf::parallel {

// Shared by all passes of a module.
struct PrecisionSetting {
  LayerNames names;
  plan::PrecisionPlan plan;
  MixedPrecisionOptions options;
  at::Device device = at::kCPU;
  // The maximum number of products of activations in a pass, by operator.
  std::map<std::string, int> products = {};
  // Whether the plan's products of activations have not been checked yet, and
  // whether a pass with gradients has ended.
  bool is_unchecked = false;
  bool has_trained = false;
  // Layers already reported as not supported by int8.
  std::set<std::string> logged = {};
};

class PrecisionPass {
 public:
  explicit PrecisionPass(PrecisionSetting& setting);
  ~PrecisionPass();
  PrecisionPass(const PrecisionPass&) = delete;
  PrecisionPass& operator=(const PrecisionPass&) = delete;

  // Runs an operator that this thread has called; its arguments are on the
  // stack.
  void perform(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack& stack);

 private:
  struct Layer {
    std::string name;
    plan::Precision precision = plan::Precision::kF32;
    std::size_t weight = 0;  // index of the weight among the arguments
    bool has_weight = false;
  };

  Layer layer_of(const OperatorRule& rule, const c10::IValue* arguments);
  plan::Precision granted(const OperatorRule& rule,
                          const c10::IValue* arguments,
                          const Layer& layer) const;
  // Logs once that a layer is not computed in int8 although the plan requests
  // it.
  void log_once(const OperatorRule& rule, const Layer& layer);
  void product(const c10::OperatorHandle& op, const OperatorRule& rule,
               torch::jit::Stack& stack);
  void multiply(const c10::OperatorHandle& op, const OperatorRule& rule,
                const Layer& layer, torch::jit::Stack& stack);
  // Custom autograd functions run their forward() with gradients off.
  bool is_in_function() const {
    return has_gradients_ && !at::GradMode::is_enabled();
  }
  void leave(const c10::OperatorHandle& op, const OperatorRule& rule,
             torch::jit::Stack& stack);
  void open(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
            torch::jit::Stack& stack);

  PrecisionSetting& setting_;
  PrecisionPass* const outer_;  // of an enclosing module
  const bool records_;          // whether observers were enabled
  const bool has_gradients_;
  const int exceptions_;  // number of uncaught exceptions at the start
  std::map<std::string, int> counts_;
  c10::impl::IncludeDispatchKeyGuard included_;
};

}  // namespace sheaf::parallel
