#include "sheaf/nn/layer_errors.hpp"

#include <torch/nn/modules/linear.h>

#include <sstream>
#include <unordered_map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/tensor/groups/failure_probe.hpp"

namespace sheaf::nn {
namespace {

using tensor::OperatorCall;

std::vector<std::int64_t> sample_shape_of(const at::Tensor& input) {
  const auto sizes = input.sizes().vec();
  return {sizes.begin() + (sizes.empty() ? 0 : 1), sizes.end()};
}

const void* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                              : nullptr;
}

// "Linear 400 -> 120", "Conv2d(1, 6, kernel_size=[5, 5], stride=[1, 1])".
std::string module_text(const torch::nn::Module& module) {
  if (const auto* linear = module.as<torch::nn::LinearImpl>())
    return concat("Linear ", linear->options.in_features(), " -> ",
                  linear->options.out_features());
  std::ostringstream out;
  module.pretty_print(out);
  std::string text = out.str();
  text = text.substr(0, text.find('\n'));
  const std::string space = "torch::nn::";
  return text.rfind(space, 0) == 0 ? text.substr(space.size()) : text;
}

// Finds layers by the memory of their parameters, since operators may receive
// views of them.
class LayerNames {
 public:
  explicit LayerNames(const Network& network) {
    for (const auto& item : network.named_modules("", /*include_self=*/false))
      for (const at::Tensor& parameter :
           item.value()->parameters(/*recurse=*/false))
        names_.emplace(storage_of(parameter),
                       concat("layer ", item.key(), " (",
                              module_text(*item.value()), ")"));
  }

  // Empty if the tensor is not a parameter.
  std::string name_of(const at::Tensor& tensor) const {
    const void* storage = storage_of(tensor);
    const auto found = names_.find(storage);
    return !storage || found == names_.end() ? "" : found->second;
  }
  std::string layer_of(const OperatorCall& call) const {
    for (const at::Tensor& one : call.tensors)
      if (std::string name = name_of(one); !name.empty()) return name;
    return "";
  }

 private:
  std::unordered_map<const void*, std::string> names_;
};

// The failed layer is the outermost failed operator with a parameter. If there
// is none, reports the outermost operator and the layer that preceded it.
std::string describe_failure(const std::vector<OperatorCall>& failed,
                             const LayerNames& names, const std::string& before,
                             const std::exception& error) {
  const OperatorCall* culprit = &failed.front();
  std::string where =
      concat(culprit->name, before.empty() ? "" : " after ", before);
  for (const OperatorCall& call : failed) {
    const std::string layer = names.layer_of(call);
    if (layer.empty()) continue;
    culprit = &call;
    where = layer;
    break;
  }
  std::string text = concat(where, ": ", one_line(error));
  for (const at::Tensor& one : culprit->tensors)
    if (names.name_of(one).empty())
      return concat(text, "; its input was ", one.sizes());
  return text;
}

// False for out-of-memory and device errors.
bool is_about_arguments(const c10::Error& error) {
  const std::string text = error.what();
  return !dynamic_cast<const c10::OutOfMemoryError*>(&error) &&
         text.find("CUDA error") == text.npos &&
         text.find("allocate memory") == text.npos &&
         text.find("not enough memory") == text.npos;
}

}  // namespace

LayerErrors::LayerErrors(std::shared_ptr<Network> network)
    : network_(std::move(network)) {}

at::Tensor LayerErrors::forward(const at::Tensor& input) {
  auto shape = sample_shape_of(input);
  if (shape == sample_shape_) return network_->forward(input);
  at::Tensor output = watched_forward(input);
  sample_shape_ = std::move(shape);
  return output;
}

at::Tensor LayerErrors::watched_forward(const at::Tensor& input) {
  const LayerNames names(*network_);
  std::string last;
  const tensor::FailureProbe probe([&](const OperatorCall& call) {
    if (std::string layer = names.layer_of(call); !layer.empty())
      last = std::move(layer);
  });
  try {
    return network_->forward(input);
  } catch (const c10::Error& error) {
    if (probe.failed().empty() || !is_about_arguments(error)) throw;
    throw UsageError(describe_failure(probe.failed(), names, last, error));
  }
}

}  // namespace sheaf::nn
