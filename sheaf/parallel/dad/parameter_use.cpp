#include "sheaf/parallel/dad/parameter_use.hpp"

#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>

#include "sheaf/parallel/dad/factor_message.hpp"

namespace sheaf::parallel {
namespace {

std::vector<ParameterUse> no_uses(
    const std::vector<TrainedParameter>& parameters) {
  std::vector<ParameterUse> uses(parameters.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const at::Tensor& tensor = parameters[i].tensor;
    uses[i].name = parameters[i].name;
    uses[i].elements = tensor.numel();
    uses[i].width = static_cast<std::int64_t>(tensor.element_size());
    uses[i].order = std::numeric_limits<std::int64_t>::max();
  }
  return uses;
}

void add(std::vector<std::size_t>& set, std::size_t value) {
  if (std::count(set.begin(), set.end(), value) == 0) set.push_back(value);
}

void add(ParameterUse& use, const Product& product, std::int64_t order) {
  const at::Tensor& input = product.input;
  ++use.calls;
  use.rows += input.size(0);
  use.takes_data = use.takes_data || !product.input_node;
  if (!product.view.is_lookup && input.numel() > 0)
    use.density = input.count_nonzero().item<double>() /
                  static_cast<double>(input.numel());
  use.in = std::max(use.in, product.view.in);
  use.out = std::max(use.out, product.view.out);
  use.is_lookup = use.is_lookup || product.view.is_lookup;
  use.order = std::min(use.order, order);
  if (product.bias) add(use.biases, *product.bias);
}

void find_chains(std::vector<ParameterUse>& uses,
                 const std::vector<Product>& products,
                 const std::vector<at::Tensor*>& outputs) {
  std::vector<LayerNodes> layers;
  for (const Product& product : products) layers.push_back(product.nodes());
  const auto above = find_above(layers, outputs);
  for (std::size_t i = 0; i < products.size(); ++i) {
    if (!above[i]) continue;
    ParameterUse& use = uses[products[i].weight];
    const std::size_t from = products[above[i]->layer].weight;
    if (use.calls == 1 && uses[from].calls == 1)
      use.above = static_cast<std::int64_t>(from);
  }
}

constexpr std::int64_t kUseNumbers = 11;

void combine(ParameterUse& all, const std::int64_t* one) {
  all.rows += one[0];
  all.calls = std::max(all.calls, one[1]);
  all.in = std::max(all.in, one[2]);
  all.out = std::max(all.out, one[3]);
  all.is_lookup = all.is_lookup || one[4] != 0;
  all.has_other_use = all.has_other_use || one[5] != 0;
  all.order = std::min(all.order, one[6]);
  all.density = std::max(all.density, 1e-6 * static_cast<double>(one[7]));
  all.above = std::max(all.above, one[8]);
  all.takes_data = all.takes_data || one[9] != 0;
}

}  // namespace

plan::FactorShape shape_of(const ParameterUse& use, int ranks) {
  return {.rows = static_cast<double>(use.rows) / ranks,
          .in = static_cast<double>(use.in),
          .out = static_cast<double>(use.out),
          .width = static_cast<double>(use.width),
          .is_lookup = use.is_lookup};
}

std::vector<ParameterUse> find_uses(
    const std::vector<TrainedParameter>& parameters,
    const std::vector<Product>& products,
    const std::vector<at::Tensor*>& outputs) {
  auto uses = no_uses(parameters);
  for (std::size_t i = 0; i < products.size(); ++i)
    add(uses[products[i].weight], products[i], static_cast<std::int64_t>(i));
  find_chains(uses, products, outputs);
  auto arrivals = count_arrivals(outputs);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto end =
        torch::autograd::impl::grad_accumulator(parameters[i].tensor);
    uses[i].has_other_use = arrivals[end.get()] > uses[i].calls;
  }
  return uses;
}

std::vector<ParameterUse> share_uses(const comm::Group& group,
                                     const std::vector<ParameterUse>& mine) {
  Numbers numbers;
  for (const ParameterUse& use : mine) {
    numbers.insert(
        numbers.end(),
        {use.rows, use.calls, use.in, use.out, use.is_lookup, use.has_other_use,
         use.order, static_cast<std::int64_t>(1e6 * use.density), use.above,
         use.takes_data, static_cast<std::int64_t>(use.biases.size())});
    numbers.insert(numbers.end(), use.biases.begin(), use.biases.end());
  }
  auto all = mine;
  for (ParameterUse& use : all) {
    use.rows = 0;
    use.calls = 0;
    use.density = 0;
    use.above = -1;
    use.biases.clear();
  }
  for (const Numbers& one : share_numbers(group, Where::kAllGather, numbers)) {
    const std::int64_t* at = one.data();
    for (ParameterUse& use : all) {
      combine(use, at);
      const std::int64_t count = at[kUseNumbers - 1];  // number of biases
      at += kUseNumbers;
      for (const std::int64_t* end = at + count; at != end; ++at)
        add(use.biases, static_cast<std::size_t>(*at));
    }
  }
  return all;
}

}  // namespace sheaf::parallel
