#include "sheaf/parallel/precision/loss_scale.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/gradients.hpp"

namespace sheaf::parallel {
namespace {

using Tensors = std::vector<at::Tensor>;

// Uses one kernel for many gradients, which reads them once.
bool unscale_on_cuda(const Tensors& gradients, double by) {
  const auto options = gradients[0].options().dtype(at::kFloat);
  at::Tensor is_infinite = at::zeros({1}, options);
  std::map<at::ScalarType, Tensors> by_type;
  for (const at::Tensor& one : gradients)
    by_type[one.scalar_type()].push_back(one);
  for (const auto& [type, list] : by_type)
    at::_amp_foreach_non_finite_check_and_unscale_(
        list, is_infinite, at::full({1}, 1 / by, options));
  return is_infinite.item<float>() == 0;
}

bool unscale_on_cpu(const Tensors& gradients, double by) {
  bool are_finite = true;
  for (at::Tensor gradient : gradients) {
    gradient.mul_(1 / by);
    const at::Tensor values =
        gradient.is_sparse() ? gradient._values() : gradient;
    are_finite = are_finite && at::isfinite(values).all().item<bool>();
  }
  return are_finite;
}

}  // namespace

LossScale::LossScale(const LossScaleOptions& options)
    : options_(options), value_(options.start) {
  SHEAF_CHECK(options.least > 0 && options.least <= options.start &&
                  options.start <= options.most && options.growth_steps > 0,
              "the loss scale starts at ", options.start, ", between ",
              options.least, " and ", options.most, ", and grows after ",
              options.growth_steps,
              " steps; the start must be within the limits, and all values "
              "must be above 0");
}

bool LossScale::unscale(const Tensors& parameters, const comm::Group& group) {
  const at::NoGradGuard no_grad;
  const Tensors gradients = distinct_gradients(parameters);
  bool are_finite = true;
  if (!gradients.empty())
    are_finite = gradients[0].is_cuda() ? unscale_on_cuda(gradients, value_)
                                        : unscale_on_cpu(gradients, value_);
  std::vector<double> bad{are_finite ? 0.0 : 1.0};
  comm::all_reduce(group, bad, {.name = "loss scale"}).wait();
  if (bad[0] > 0) {
    value_ = std::max(options_.least, value_ / 2);
    good_steps_ = 0;
    return false;
  }
  if (++good_steps_ == options_.growth_steps) {
    value_ = std::min(options_.most, value_ * 2);
    good_steps_ = 0;
  }
  return true;
}

at::Tensor LossScale::state() const {
  at::Tensor state = at::empty({2}, at::kDouble);
  state.data_ptr<double>()[0] = value_;
  state.data_ptr<double>()[1] = static_cast<double>(good_steps_);
  return state;
}

void LossScale::load(const at::Tensor& state) {
  SHEAF_CHECK(state.numel() == 2 && state.scalar_type() == at::kDouble,
              "the state of a loss scale is two numbers in f64, but got ",
              state.numel(), " in ", state.scalar_type());
  const at::Tensor numbers = state.cpu().contiguous();
  value_ = numbers.data_ptr<double>()[0];
  good_steps_ = static_cast<std::int64_t>(numbers.data_ptr<double>()[1]);
}

}  // namespace sheaf::parallel
