#include <torch/torch.h>

#include "sheaf/nn/kinds.hpp"

namespace sheaf::nn {
namespace {

// Linear layers with activations between them. Names are those of Python's
// nn.Sequential(Linear, ReLU, Linear, ...), with an optional dropout after each
// activation.
class Mlp : public Network {
 public:
  explicit Mlp(const Arguments& arguments)
      : activation_(arguments.choice("activation",
                                     {"relu", "tanh", "sigmoid", "gelu"})) {
    const auto sizes = arguments.integers("sizes");
    if (sizes.size() < 2)
      arguments.refuse("sizes", "at least two numbers, such as 784-10");
    const double dropout = arguments.probability("dropout");
    const std::size_t step = dropout > 0 ? 3 : 2;
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
      linears_.push_back(register_module(
          std::to_string(step * i), torch::nn::Linear(sizes[i], sizes[i + 1])));
      if (dropout > 0 && i + 2 < sizes.size())
        dropouts_.push_back(register_module(std::to_string(step * i + 2),
                                            torch::nn::Dropout(dropout)));
    }
  }

  at::Tensor forward(at::Tensor input) override {
    at::Tensor x = input.flatten(1);
    for (std::size_t i = 0; i < linears_.size(); ++i) {
      x = linears_[i](x);
      if (i + 1 == linears_.size()) break;
      x = activate(x);
      if (!dropouts_.empty()) x = dropouts_[i](x);
    }
    return x;
  }

 private:
  at::Tensor activate(const at::Tensor& x) const {
    if (activation_ == "tanh") return torch::tanh(x);
    if (activation_ == "sigmoid") return torch::sigmoid(x);
    if (activation_ == "gelu") return torch::gelu(x);
    return torch::relu(x);
  }

  std::string activation_;
  std::vector<torch::nn::Linear> linears_;
  std::vector<torch::nn::Dropout> dropouts_;
};

}  // namespace

NetworkKind mlp_kind() {
  return {"mlp",
          {{"sizes", "784-2048-1024-512-256-10"},
           {"activation", "relu"},
           {"dropout", "0"}},
          [](const Arguments& arguments) {
            return std::make_shared<Mlp>(arguments);
          }};
}

}  // namespace sheaf::nn
