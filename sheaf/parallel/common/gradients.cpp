#include "sheaf/parallel/common/gradients.hpp"

#include <torch/utils.h>

#include <cmath>
#include <set>
#include <tuple>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::parallel {
namespace {

using Place = std::tuple<const void*, std::int64_t, std::vector<std::int64_t>,
                         std::vector<std::int64_t>>;

// Identifies the memory of a gradient. A sparse gradient is identified by its
// tensor.
Place place_of(const at::Tensor& gradient) {
  if (gradient.layout() != at::kStrided || !gradient.has_storage())
    return {gradient.unsafeGetTensorImpl(), 0, {}, {}};
  return {gradient.storage().unsafeGetStorageImpl(), gradient.storage_offset(),
          gradient.sizes().vec(), gradient.strides().vec()};
}

}  // namespace

void average_gradients(const torch::nn::Module& module,
                       const comm::Group& group) {
  if (group.size() == 1) return;
  const at::NoGradGuard no_grad;
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    at::Tensor parameter = item.value();
    if (!parameter.requires_grad() ||
        !seen.insert(parameter.unsafeGetTensorImpl()).second)
      continue;
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter.detach());
    if (gradient.is_sparse()) gradient = gradient.to_dense();
    tensor::all_reduce(group, gradient,
                       {.op = comm::ReduceOp::kAvg, .name = item.key()})
        .wait();
  }
}

double square_of_gradients(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  double square = 0;
  std::set<const void*> seen;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined() ||
        !seen.insert(parameter.unsafeGetTensorImpl()).second)
      continue;
    const double norm = parameter.grad().norm().item<double>();
    square += norm * norm;
  }
  return square;
}

void scale_gradients(const torch::nn::Module& module, double norm,
                     double max_norm) {
  SHEAF_CHECK(max_norm > 0, "max_norm is ", max_norm, "; it must be above 0");
  SHEAF_CHECK(std::isfinite(norm), "the norm of the gradients is ", norm,
              "; lower the learning rate, or check the data for NaN");
  if (norm <= max_norm) return;
  const at::NoGradGuard no_grad;
  for (const at::Tensor& gradient : distinct_gradients(module.parameters()))
    gradient.mul_(max_norm / norm);
}

std::vector<at::Tensor> distinct_gradients(
    const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  std::set<Place> seen;
  for (const at::Tensor& parameter : parameters)
    if (const at::Tensor& gradient = parameter.grad();
        gradient.defined() && seen.insert(place_of(gradient)).second)
      gradients.push_back(gradient);
  return gradients;
}

double clip_gradients(const torch::nn::Module& module, double max_norm) {
  const double norm = std::sqrt(square_of_gradients(module.parameters()));
  scale_gradients(module, norm, max_norm);
  return norm;
}

void forget_gradients(const torch::nn::Module& module) {
  for (at::Tensor parameter : module.parameters())
    if (parameter.mutable_grad().defined()) parameter.mutable_grad().reset();
}

std::uint64_t seed_rank(std::uint64_t seed, const comm::Group& group) {
  // A hash: consecutive seeds and ranks give independent streams.
  std::uint64_t x = seed + 0x9e3779b97f4a7c15u *
                               (static_cast<std::uint64_t>(group.rank()) + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  torch::manual_seed(x);
  return x;
}

}  // namespace sheaf::parallel
