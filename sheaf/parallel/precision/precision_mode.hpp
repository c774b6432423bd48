#pragma once
// A forward pass under a plan: what the dispatcher does with each operator.

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <map>
#include <set>
#include <string>

#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/parallel/precision/precision_names.hpp"
#include "sheaf/parallel/precision/precision_rules.hpp"

namespace sheaf::parallel {

// What the passes of a module have in common.
struct PrecisionSetting {
  LayerNames names;
  plan::PrecisionPlan plan;
  MixedPrecisionOptions options;
  at::Device device = at::kCPU;
  // How many products of activations a pass has had at most, by operator.
  std::map<std::string, int> products = {};
  // Whether the plan's names of such products are still to be looked for, and
  // whether a pass with gradients has ended.
  bool is_unchecked = false;
  bool has_trained = false;
  std::set<std::string> told = {};  // layers that int8 is not there for
};

class PrecisionPass {
 public:
  explicit PrecisionPass(PrecisionSetting& setting);
  ~PrecisionPass();
  PrecisionPass(const PrecisionPass&) = delete;
  PrecisionPass& operator=(const PrecisionPass&) = delete;

  // An operator that this thread has called; its arguments are on the stack.
  void perform(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack& stack);

 private:
  struct Layer {
    std::string name;
    plan::Precision precision = plan::Precision::kF32;
    std::size_t weight = 0;  // its place among the arguments, if it has one
    bool has_weight = false;
  };

  Layer layer_of(const OperatorRule& rule, const c10::IValue* arguments);
  plan::Precision granted(const OperatorRule& rule,
                          const c10::IValue* arguments,
                          const Layer& layer) const;
  // That a layer is not computed in int8, though the plan says so.
  void tell_once(const OperatorRule& rule, const Layer& layer);
  void product(const c10::OperatorHandle& op, const OperatorRule& rule,
               torch::jit::Stack& stack);
  void multiply(const c10::OperatorHandle& op, const OperatorRule& rule,
                const Layer& layer, torch::jit::Stack& stack);
  // Functions with a backward() of their own have gradients off in forward().
  bool is_in_function() const {
    return has_gradients_ && !at::GradMode::is_enabled();
  }
  void leave(const c10::OperatorHandle& op, const OperatorRule& rule,
             torch::jit::Stack& stack);
  void open(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
            torch::jit::Stack& stack);

  PrecisionSetting& setting_;
  PrecisionPass* const outer_;  // of a module around this one
  const bool records_;          // whether observers are to be told
  const bool has_gradients_;
  const int exceptions_;  // that were under way
  std::map<std::string, int> counts_;
  c10::impl::IncludeDispatchKeyGuard included_;
};

}  // namespace sheaf::parallel
