#include "sheaf/parallel/common/sync_batch_norm.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/comm/group/world.hpp"
#include "tests/support/compare.hpp"

namespace sheaf::parallel {
namespace {

using sheaf::test::largest_difference;
using torch::Tensor;

struct NormResult {
  Tensor output, gradient, weight_gradient;
};

// y = norm(x), and the gradients of sum(y * factors).
NormResult norm_of(const Tensor& x, const Tensor& factors,
                   const comm::Group& group) {
  torch::nn::BatchNorm1d layer(x.size(1));
  layer->to(x.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat);
  {
    const torch::NoGradGuard no_grad;
    layer->weight.fill_(1.5);
    layer->bias.fill_(0.25);
  }
  if (group.size() > 1) use_sync_batch_norm(*layer, group);
  const Tensor input = x.detach().clone().requires_grad_();
  const Tensor output = layer->forward(input);
  (output * factors).sum().backward();
  if (group.size() > 1) use_local_batch_norm(*layer);
  return {output.detach(), input.grad(), layer->weight.grad()};
}

Tensor share(const Tensor& all, const comm::Group& group) {
  const std::int64_t rows = all.size(0) / group.size();
  return all.narrow(0, group.rank() * rows, rows);
}

// Means near 100 are rounded to a multiple of 0.5 in bf16, half of the spread
// of the numbers. A result that is computed in f32 and rounded once has an
// error of 2^-9 of its size; the errors of f32, 100 * 2^-23, are far smaller.
TEST(SyncBatchNorm, SixteenBitsAreRoundedOnce) {
  torch::manual_seed(3);
  const Tensor all =
      (torch::randn({16, 5}, torch::kDouble) + 100.3).to(torch::kBFloat16);
  const Tensor factors =
      torch::randn({16, 5}, torch::kDouble).to(torch::kBFloat16);
  NormResult wanted;
  comm::run_threads(1, [&](const comm::Group& group) {
    wanted = norm_of(all.to(torch::kDouble), factors.to(torch::kDouble), group);
  });
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto found = norm_of(share(all, group), share(factors, group), group);
    EXPECT_EQ(found.output.scalar_type(), torch::kBFloat16);
    for (const auto& [mine, all_of_it] :
         {std::pair(found.output, wanted.output),
          std::pair(found.gradient, wanted.gradient)}) {
      const Tensor exact = share(all_of_it, group);
      const Tensor error = (mine.to(torch::kDouble) - exact).abs();
      const Tensor bound = exact.abs() / 256 + 1e-4;
      EXPECT_TRUE((error <= bound).all().item<bool>()) << error - bound;
    }
  });
}

// With a frozen layer, and with an input that is data on one rank and the
// output of a layer on the other.
TEST(SyncBatchNorm, ARankThatNeedsNoGradientTakesPart) {
  torch::manual_seed(4);
  const Tensor all = torch::randn({6, 3}, torch::kDouble);
  const Tensor factors = torch::randn({6, 3}, torch::kDouble);
  const auto gradient_of = [](const Tensor& x, const Tensor& by,
                              const comm::Group& group, bool needs_gradient) {
    torch::nn::BatchNorm1d layer(3);
    layer->to(torch::kDouble);
    for (Tensor& one : layer->parameters()) one.set_requires_grad(false);
    if (group.size() > 1) use_sync_batch_norm(*layer, group);
    const Tensor input = x.clone().set_requires_grad(needs_gradient);
    const Tensor weight = torch::ones({3}, torch::kDouble).requires_grad_();
    (layer->forward(input) * weight * by).sum().backward();
    if (group.size() > 1) use_local_batch_norm(*layer);
    return input.grad();
  };
  Tensor wanted;
  comm::run_threads(1, [&](const comm::Group& group) {
    wanted = gradient_of(all, factors, group, true);
  });
  comm::run_threads(2, [&](const comm::Group& group) {
    const Tensor found = gradient_of(share(all, group), share(factors, group),
                                     group, group.rank() == 0);
    ASSERT_EQ(found.defined(), group.rank() == 0);
    if (found.defined())
      EXPECT_LE(largest_difference(found, share(wanted, group)), 1e-12);
  });
}

TEST(SyncBatchNorm, ARankWithoutRowsTakesPart) {
  torch::manual_seed(4);
  const Tensor all = torch::randn({6, 4}, torch::kDouble);
  const Tensor factors = torch::randn({6, 4}, torch::kDouble);
  NormResult wanted;
  comm::run_threads(1, [&](const comm::Group& group) {
    wanted = norm_of(all, factors, group);
  });
  comm::run_threads(3, [&](const comm::Group& group) {
    // The second rank has no rows.
    const std::int64_t first = group.rank() == 0 ? 0 : 2;
    const std::int64_t rows = group.rank() == 0 ? 2 : group.rank() == 1 ? 0 : 4;
    const auto found = norm_of(all.narrow(0, first, rows),
                               factors.narrow(0, first, rows), group);
    EXPECT_LE(
        largest_difference(found.output, wanted.output.narrow(0, first, rows)),
        1e-13);
    EXPECT_LE(largest_difference(found.gradient,
                                 wanted.gradient.narrow(0, first, rows)),
              1e-13);
    if (rows == 0) {
      EXPECT_EQ(found.weight_gradient.abs().sum().item<double>(), 0);
    }
  });
}

}  // namespace
}  // namespace sheaf::parallel
