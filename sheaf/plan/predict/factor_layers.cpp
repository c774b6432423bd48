#include "sheaf/plan/predict/factor_layers.hpp"

#include <algorithm>
#include <map>

namespace sheaf::plan {
namespace {

using At = std::size_t;

bool has_factors_of(const Slot& slot) {
  const bool is_product = slot.op == "aten::linear" ||
                          slot.op == "aten::addmm" || slot.op == "aten::mm" ||
                          slot.op == "aten::matmul";
  return is_product && !slot.layer.empty() && slot.weight_elements > 0 &&
         !slot.out_shape.empty() && slot.out_shape.back() > 0;
}

bool keeps_deltas(const Slot& slot) {
  for (const char* op : {"aten::relu", "aten::relu_", "aten::tanh",
                         "aten::tanh_", "aten::sigmoid", "aten::sigmoid_"})
    if (slot.op == op) return true;
  return false;
}

class FactorLayerFinder {
 public:
  FactorLayerFinder(const StepProfile& profile, const StepGraph& step)
      : slots_(profile.graph.slots),
        profile_(profile),
        backward_ns_(slots_.size()),
        users_(slots_.size()) {
    for (const auto& thread : step.threads)
      for (const ThreadMark& mark : thread)
        if (mark.part != kNone && mark.part % 2 != 0)
          backward_ns_[static_cast<At>(mark.part / 2)] +=
              static_cast<double>(work_ns(step, mark));
    has_backward_.assign(slots_.size(), false);
    for (const Part& part : profile.parts)
      if (part.is_backward && part.slot >= 0)
        has_backward_[static_cast<At>(part.slot)] = true;
    for (At i = 0; i < slots_.size(); ++i)
      for (const SlotInput& input : slots_[i].inputs)
        if (input.slot >= 0) users_[static_cast<At>(input.slot)].push_back(i);
  }

  std::vector<FactorLayer> find() {
    for (At i = 0; i < slots_.size(); ++i)
      if (has_factors_of(slots_[i])) add(i);
    for (const ModelParameter& one : profile_.model.parameters)
      if (const auto found = number_.find(one.layer); found != number_.end())
        parameters_[found->second] += 1;
    for (At i = 0; i < layers_.size(); ++i) {
      layers_[i].has_bias = parameters_[i] > 1;
      find_above(layers_[i]);
    }
    return std::move(layers_);
  }

 private:
  void add(At slot) {
    const Slot& one = slots_[slot];
    const auto [at, is_new] = number_.try_emplace(one.layer, layers_.size());
    if (is_new) layers_.emplace_back();
    FactorLayer& layer = layers_[at->second];
    layer.name = one.layer;
    layer.out = static_cast<double>(one.out_shape.back());
    layer.in = one.weight_elements / layer.out;
    layer.rows += elements_of(one.out_shape) / layer.out;
    layer.slots.push_back(slot);
    layer.gradient_part.push_back(gradient_part(one));
    layer.gradient_ns += backward_ns_[slot] * layer.gradient_part.back();
  }
  // The other half is the gradient of the input; input data needs none.
  double gradient_part(const Slot& slot) const {
    for (const SlotInput& input : slot.inputs)
      if (input.slot >= 0 && has_backward_[static_cast<At>(input.slot)])
        return 0.5;
    return 1;
  }
  // Sets `above` if the output goes into one layer, directly or through one
  // function, each called once.
  void find_above(FactorLayer& layer) const {
    if (layer.slots.size() != 1) return;
    const std::vector<At>* users = &users_[layer.slots[0]];
    if (users->size() == 1 && keeps_deltas(slots_[users->front()]))
      users = &users_[users->front()];
    if (users->size() != 1) return;
    const auto found = number_.find(slots_[users->front()].layer);
    if (found != number_.end() && layers_[found->second].slots.size() == 1)
      layer.above = static_cast<std::int32_t>(found->second);
  }

  const std::vector<Slot>& slots_;
  const StepProfile& profile_;
  std::vector<double> backward_ns_;  // by slot
  std::vector<bool> has_backward_;
  std::vector<std::vector<At>> users_;
  std::map<std::string, At> number_;
  std::map<At, int> parameters_;  // by layer
  std::vector<FactorLayer> layers_;
};

}  // namespace

std::vector<FactorLayer> factor_layers(const StepProfile& profile,
                                       const StepGraph& step) {
  return FactorLayerFinder(profile, step).find();
}

std::vector<std::string> factor_layer_names(const StepProfile& profile) {
  std::vector<std::string> names;
  for (const Slot& slot : profile.graph.slots)
    if (has_factors_of(slot) &&
        std::find(names.begin(), names.end(), slot.layer) == names.end())
      names.push_back(slot.layer);
  return names;
}

FactorCosts::FactorCosts(std::vector<FactorLayer> layers,
                         const ExchangePlan& plan, const FactorScale& scale)
    : layers_(std::move(layers)), rank_(plan.rank), scale_(scale) {
  for (const FactorLayer& layer : layers_)
    routes_.push_back(plan.of(layer.name));
}

FactorShape FactorCosts::shape(std::size_t layer) const {
  const FactorLayer& one = layers_[layer];
  return {.rows = one.rows, .in = one.in, .out = one.out};
}

bool FactorCosts::follows(std::size_t layer) const {
  const std::int32_t above = layers_[layer].above;
  return above >= 0 &&
         derives_deltas(routes_[layer], routes_[static_cast<At>(above)]);
}

double FactorCosts::forward_bytes(std::size_t layer) const {
  if (!has_factors(routes_[layer]) || routes_[layer] == Route::kRankDad)
    return 0;
  return scale_.shares * input_bytes(shape(layer));
}

double FactorCosts::backward_bytes(std::size_t layer) const {
  if (routes_[layer] == Route::kRankDad)
    return scale_.workers *
           low_rank_bytes(shape(layer), rank_, layers_[layer].has_bias);
  if (!has_factors(routes_[layer]) || follows(layer)) return 0;
  return scale_.shares * delta_bytes(shape(layer));
}

double FactorCosts::compression_ns(std::size_t layer) const {
  const FactorLayer& one = layers_[layer];
  if (routes_[layer] != Route::kRankDad) return 0;
  const double done = 2 * one.rows * one.in * one.out;
  return one.gradient_ns * low_rank_operations(shape(layer), kFeedbackRows) /
         done;
}

double FactorCosts::gradient_ns(std::size_t layer) const {
  const FactorLayer& one = layers_[layer];
  if (!has_factors(routes_[layer])) return 0;
  const double rows = gradient_rows(routes_[layer], shape(layer), rank_,
                                    scale_.shares * one.rows, scale_.workers);
  const double own = one.gradient_ns * rows / one.rows;
  if (!follows(layer)) return own;
  return own + layers_[static_cast<At>(one.above)].gradient_ns * scale_.shares;
}

// All kinds of workers must send the same parcels, so the rows are the mean
// over all workers.
ParcelPlan FactorCosts::parcels() const {
  std::vector<ParcelItem> items;
  std::vector<At> order;
  for (At i = 0; i < layers_.size(); ++i) {
    if (has_factors(routes_[i])) order.push_back(i);
    items.push_back({routes_[i], shape(i)});
    items.back().shape.rows *= scale_.shares / scale_.workers;
  }
  return plan_parcels(items, order);
}

}  // namespace sheaf::plan
