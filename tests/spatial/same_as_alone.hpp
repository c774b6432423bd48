#pragma once
// Compares operations on split tensors with the same operations in a single
// process.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "sheaf/spatial/split/halo_autograd.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "tests/support/compare.hpp"

namespace sheaf::spatial::test {

using Tensors = std::vector<at::Tensor>;
// A function of an input and weights.
using Function = std::function<at::Tensor(const at::Tensor&, const Tensors&)>;

struct Case {
  std::string name;
  std::vector<std::int64_t> input;
  std::vector<std::vector<std::int64_t>> weights;
  Function function;
  int first_axis = 2;
};

struct Results {
  at::Tensor output;
  at::Tensor input_gradient;
  Tensors weight_gradients;
};

// The same numbers on all ranks, independent of the default generator.
inline at::Tensor random(const std::vector<std::int64_t>& sizes,
                         at::ScalarType type, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::kDouble).to(type);
}

inline Tensors random_weights(const Case& one, at::ScalarType type) {
  Tensors weights;
  for (std::size_t i = 0; i < one.weights.size(); ++i)
    weights.push_back(
        random(one.weights[i], type, 10 + i).set_requires_grad(true));
  return weights;
}

inline Results alone(const Case& one, at::ScalarType type) {
  const at::Tensor input = random(one.input, type, 1).set_requires_grad(true);
  const Tensors weights = random_weights(one, type);
  const at::Tensor output = one.function(input, weights);
  (output * random(output.sizes().vec(), type, 2)).sum().backward();
  Results results{output.detach(), input.grad(), {}};
  for (const at::Tensor& weight : weights)
    results.weight_gradients.push_back(weight.grad());
  return results;
}

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  const double most = sheaf::test::largest_difference(a, b);
  if (b.numel() == 0) return most;
  return most / std::max(1.0, b.abs().max().item<double>());
}

// Called on each rank; `wanted` are the results of a single process.
inline void expect_same(const Case& one, const Results& wanted,
                        const std::shared_ptr<Tiles>& tiles,
                        at::ScalarType type, double tolerance) {
  const std::string where = one.name + " on " + tiles->grid().text() +
                            ", rank " + std::to_string(tiles->rank());
  const at::Tensor whole = random(one.input, type, 1);
  const Split split = split_of(cut(whole, tiles, one.first_axis));
  const at::Tensor part =
      own_part(whole, split).clone().set_requires_grad(true);
  const Tensors weights = random_weights(one, type);
  const at::Tensor output = one.function(make_split(part, split), weights);
  ASSERT_EQ(output.sizes(), wanted.output.sizes()) << where;
  EXPECT_LE(
      distance(is_split(output) ? gather(output).detach() : output.detach(),
               wanted.output),
      tolerance)
      << where << ": output";
  (output * random(wanted.output.sizes().vec(), type, 2)).sum().backward();
  // A loss that all ranks have counts once per rank.
  const double ranks = tiles->group().size();
  ASSERT_TRUE(part.grad().defined()) << where;
  EXPECT_LE(
      distance(part.grad() / ranks, own_part(wanted.input_gradient, split)),
      tolerance)
      << where << ": gradient of the input";
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor mean = weights[i].grad().defined()
                                ? weights[i].grad().clone()
                                : at::zeros_like(weights[i]);
    tensor::all_reduce(tiles->group(), mean).wait();
    EXPECT_LE(distance(mean / ranks, wanted.weight_gradients[i]), tolerance)
        << where << ": gradient of weight " << i;
  }
}

}  // namespace sheaf::spatial::test
