// A finite sum has only finite terms, and a sum is the fastest operation that
// reads all elements. A non-finite sum may be due to overflow, so then every
// element is checked.
#include "sheaf/train/step/finite.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <map>

#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::train {
namespace {

// The floating-point values to check; undefined if there are none.
at::Tensor numbers_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (spatial::is_split(tensor)) return numbers_of(spatial::local_of(tensor));
  if (tensor.is_sparse()) return numbers_of(tensor._values());
  const bool has_numbers = tensor.is_floating_point() || tensor.is_complex();
  return has_numbers && tensor.numel() > 0 ? tensor.detach() : at::Tensor();
}

bool has_finite_elements(const at::Tensor& numbers) {
  return at::isfinite(numbers).all().item<bool>();
}

bool has_finite_sum(const at::Tensor& numbers) {
  const bool is_half = numbers.scalar_type() == at::kHalf ||
                       numbers.scalar_type() == at::kBFloat16;
  const at::Tensor sum = is_half ? numbers.sum(at::kFloat) : numbers.sum();
  return std::isfinite(sum.item<double>());
}

// Needs one kernel for many tensors of the same type.
bool have_finite_norms(const std::vector<at::Tensor>& list) {
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const at::Tensor& one : list) by_type[one.scalar_type()].push_back(one);
  at::Tensor sum = at::zeros({}, list[0].options().dtype(at::kFloat));
  for (const auto& [type, same] : by_type)
    sum += at::stack(at::_foreach_norm(same)).sum().to(at::kFloat);
  return std::isfinite(sum.item<double>());
}

}  // namespace

bool is_finite(const at::Tensor& tensor) {
  const at::Tensor numbers = numbers_of(tensor);
  if (!numbers.defined()) return true;
  if (!numbers.is_complex() && has_finite_sum(numbers)) return true;
  return has_finite_elements(numbers);
}

bool are_finite(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> on_gpu;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor numbers = numbers_of(tensor);
    if (numbers.defined() && numbers.is_cuda() && !numbers.is_complex())
      on_gpu.push_back(numbers);
    else if (!is_finite(tensor))
      return false;
  }
  if (on_gpu.empty() || have_finite_norms(on_gpu)) return true;
  for (const at::Tensor& numbers : on_gpu)
    if (!has_finite_elements(numbers)) return false;
  return true;
}

}  // namespace sheaf::train
