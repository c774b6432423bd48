#include "sheaf/train/step/loss.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/train/setup/fit_check.hpp"

namespace sheaf::train {

namespace F = torch::nn::functional;
using torch::Tensor;

Tensor Loss::sum(const Tensor& output, const Tensor& given) const {
  const Tensor target = strategy_.target_for(output, given);
  if (strategy_.has_whole_outputs()) check_shapes(name_, output, target);
  return name_ == "mse" ? squares(output, target) : of_classes(output, target);
}

Tensor Loss::squares(const Tensor& output, const Tensor& target) const {
  Tensor wanted = target.to(output.scalar_type());
  if (wanted.sizes() != output.sizes()) wanted = wanted.view_as(output);
  const std::int64_t rows = std::max<std::int64_t>(1, output.size(0));
  const double size = static_cast<double>(output.numel() / rows);
  return torch::mse_loss(output, wanted, torch::Reduction::Sum) /
         std::max(1.0, size);
}

Tensor Loss::of_classes(const Tensor& output, const Tensor& target) const {
  // Sums are computed in f32 if the network computes in lower precision.
  const bool is_low = output.scalar_type() == torch::kBFloat16 ||
                      output.scalar_type() == torch::kHalf;
  const Tensor exact = is_low ? output.to(torch::kFloat) : output;
  const Tensor wanted = target.to(
      target.is_floating_point() ? exact.scalar_type() : torch::kLong);
  try {
    if (name_ == "nll")
      return torch::nll_loss(exact, wanted, {}, torch::Reduction::Sum);
    return F::cross_entropy(
        exact, wanted, F::CrossEntropyFuncOptions().reduction(torch::kSum));
  } catch (const c10::IndexError& error) {
    throw UsageError(concat("rank ", rank_, ": a label is not a class ",
                            "of the network, which has ", output.size(1),
                            " outputs: ", one_line(error),
                            "; correct the labels, or give the network's last "
                            "layer more outputs"));
  }
}

}  // namespace sheaf::train
