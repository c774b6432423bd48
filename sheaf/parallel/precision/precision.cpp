#include "sheaf/parallel/precision/precision.hpp"

#include <algorithm>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/parallel/precision/precision_device.hpp"
#include "sheaf/parallel/precision/precision_mode.hpp"

namespace sheaf::parallel {
namespace {

using plan::Precision;
using plan::PrecisionPlan;

at::Device device_of(const torch::nn::Module& module) {
  const auto parameters = module.named_parameters();
  SHEAF_CHECK(!parameters.is_empty(),
              "a precision plan needs a module with parameters, but this "
              "module has none");
  const at::Device device = parameters.begin()->value().device();
  for (const auto& entry : parameters) {
    const at::Tensor& tensor = entry.value();
    SHEAF_CHECK(tensor.scalar_type() == at::kFloat,
                "a precision plan needs parameters in f32, but ", entry.key(),
                " is ", tensor.scalar_type(),
                "; the plan applies to layers, weights stay in f32");
    SHEAF_CHECK(tensor.device() == device,
                "a precision plan needs all parameters on one "
                "device, but ",
                entry.key(), " is on ", tensor.device(),
                " and other parameters are on ", device);
  }
  return device;
}

// "matmul#3": a product of activations, which is known only after a pass.
bool is_counted(const std::string& layer) {
  const std::size_t mark = layer.find('#');
  return mark != std::string::npos && mark + 1 < layer.size() &&
         is_product(layer.substr(0, mark)) &&
         std::all_of(layer.begin() + static_cast<std::ptrdiff_t>(mark) + 1,
                     layer.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The closest names first, at most three.
std::vector<std::string> close_names(const std::string& layer,
                                     std::vector<std::string> names) {
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) {
                     return edit_distance(layer, a) < edit_distance(layer, b);
                   });
  if (names.size() > 3) names.resize(3);
  return names;
}

void check_layers(const LayerNames& names, const PrecisionPlan& plan) {
  for (const auto& [layer, precision] : plan.layers) {
    if (names.has(layer) || is_counted(layer)) continue;
    const std::string other = names.shared_with(layer);
    SHEAF_CHECK(other.empty(), "the plan names the layer '", layer,
                "', which shares its weight with '", other, "'; use that name");
    const auto layers = names.layers();
    SHEAF_CHECK(false, "the plan names the layer '", layer,
                "', which the module does not have; closest names: ",
                join(close_names(layer, layers), ", "), ", of ", layers.size(),
                " layers");
  }
}

bool has_counted(const PrecisionPlan& plan) {
  return std::any_of(plan.layers.begin(), plan.layers.end(),
                     [](const auto& one) { return is_counted(one.first); });
}

// "matmul#0 to matmul#5, bmm#0".
std::string text_of(const std::map<std::string, int>& products) {
  std::vector<std::string> parts;
  for (const auto& [label, count] : products)
    parts.push_back(count == 1
                        ? label + "#0"
                        : concat(label, "#0 to ", label, "#", count - 1));
  return parts.empty() ? "none" : join(parts, ", ");
}

bool has_product(const std::map<std::string, int>& products,
                 const std::string& name) {
  for (const auto& [label, count] : products)
    for (int i = 0; i < count; ++i)
      if (name == concat(label, "#", i)) return true;
  return false;
}

std::set<Precision> precisions_of(const PrecisionPlan& plan) {
  std::set<Precision> result{plan.other};
  for (const auto& [layer, precision] : plan.layers) result.insert(precision);
  return result;
}

std::string user_of(const PrecisionPlan& plan, Precision precision) {
  for (const auto& [layer, one] : plan.layers)
    if (one == precision) return concat("the layer '", layer, "'");
  return "layers without an entry";
}

void check_precisions(const PrecisionPlan& plan, const at::Device& device) {
  for (const Precision precision : precisions_of(plan)) {
    const std::string reason = why_not(precision, device);
    SHEAF_CHECK(reason.empty(), "the plan requests ",
                plan::to_string(precision), " for ", user_of(plan, precision),
                ": ", reason);
  }
}

}  // namespace

void check_plan(const torch::nn::Module& module, const PrecisionPlan& plan,
                const torch::Device& device) {
  check_layers(LayerNames(module), plan);
  check_precisions(plan, device);
}

std::vector<std::string> layers_of(const torch::nn::Module& module) {
  return LayerNames(module).layers();
}

MixedPrecision::MixedPrecision(torch::nn::Module& module, PrecisionPlan plan,
                               const MixedPrecisionOptions& options)
    : setting_(std::make_unique<PrecisionSetting>(PrecisionSetting{
          LayerNames(module), std::move(plan), options, device_of(module)})) {
  avoid_broken_kernels();
  check_layers(setting_->names, setting_->plan);
  check_precisions(setting_->plan, setting_->device);
  setting_->is_unchecked = has_counted(setting_->plan);
}

void MixedPrecision::check_products() const {
  for (const auto& [layer, precision] : setting_->plan.layers)
    SHEAF_CHECK(
        !is_counted(layer) || has_product(setting_->products, layer),
        "the plan names '", layer,
        "', but no such product of activations occurred in the module's "
        "forward pass; those that did: ",
        text_of(setting_->products), "; use one of these names, or remove it");
}

MixedPrecision::~MixedPrecision() = default;
MixedPrecision::MixedPrecision(MixedPrecision&&) noexcept = default;
MixedPrecision& MixedPrecision::operator=(MixedPrecision&&) noexcept = default;

MixedPrecision::Scope::Scope(MixedPrecision& precision) {
  PrecisionSetting& setting = *precision.setting_;
  if (setting.is_unchecked && setting.has_trained) {
    precision.check_products();
    setting.is_unchecked = false;
  }
  pass_ = std::make_unique<PrecisionPass>(setting);
}
MixedPrecision::Scope::~Scope() = default;

const PrecisionPlan& MixedPrecision::plan() const { return setting_->plan; }

bool MixedPrecision::needs_loss_scale() const {
  const auto used = precisions_of(setting_->plan);
  return used.contains(Precision::kF16) || used.contains(Precision::kInt8);
}

}  // namespace sheaf::parallel
