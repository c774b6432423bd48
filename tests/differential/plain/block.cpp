#include "plain/block.hpp"

#include <numeric>

namespace differential {
namespace {

struct FunctionBlock : Block {
  at::Tensor run(const at::Tensor& x, const PassInputs& inputs) override {
    Parameters list;
    for (const std::string& name : names) list.push_back(parameters_[name]);
    return function(x, list, inputs);
  }
  std::vector<std::string> names;
  Function function;
};

}  // namespace

std::int64_t Shape::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1},
                         std::multiplies<>());
}

void require(bool condition, const std::string& what) {
  if (!condition) throw BadCase(what);
}

BlockPointer make_block(Function function) {
  return make_block({}, std::move(function));
}

BlockPointer make_block(
    const std::vector<std::pair<std::string, std::vector<std::int64_t>>>&
        parameters,
    Function function) {
  auto block = std::make_shared<FunctionBlock>();
  block->function = std::move(function);
  for (const auto& [name, sizes] : parameters) {
    block->register_parameter(name, torch::zeros(sizes));
    block->names.push_back(name);
  }
  return block;
}

at::Tensor product(const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& bias, bool is_bf16, bool casts) {
  if (!casts) return torch::linear(x, weight, bias);
  const auto type = is_bf16 ? at::kBFloat16 : at::kFloat;
  return torch::linear(x.to(type), weight.to(type),
                       bias.defined() ? bias.to(type) : bias);
}

}  // namespace differential
