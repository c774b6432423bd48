// What tests/parallel/python_ddp.py trains, trained with DataParallel.

#include <torch/torch.h>

#include "sheaf/sheaf.hpp"
#include "sheaf/tensor/state_dict.hpp"

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv = register_module(
        "conv",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
    first = register_module("first", torch::nn::Linear(4 * 36, 20));
    last = register_module("last", torch::nn::Linear(20, 5));
  }
  at::Tensor forward(at::Tensor x) {
    x = torch::relu(conv(x)).flatten(1);
    return last(torch::tanh(first(x)));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear first{nullptr}, last{nullptr};
};
TORCH_MODULE(Net);

at::Tensor entry(const sheaf::tensor::StateDict& dict, const char* name) {
  for (const auto& [key, tensor] : dict)
    if (key == name) return tensor;
  throw sheaf::UsageError(sheaf::concat("no ", name));
}

}  // namespace

int main(int argc, char** argv) {
  const auto world = sheaf::init(argc, argv);
  const std::string folder = argv[1];
  Net net;
  net->to(torch::kDouble);
  if (world.rank() == 0)
    sheaf::tensor::load_state_dict(
        *net, sheaf::tensor::load_state_dict_file(folder + "/start.pt"));
  sheaf::DataParallel model(net, world);
  torch::optim::SGD optimizer(
      net->parameters(),
      torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3));
  const auto examples =
      sheaf::tensor::load_state_dict_file(folder + "/data.pt");
  const at::Tensor data = entry(examples, "data");
  const at::Tensor target = entry(examples, "target");
  const std::int64_t rows = data.size(1) / world.size();
  for (std::int64_t step = 0; step < data.size(0); ++step) {
    optimizer.zero_grad();
    const auto mine = [&](const at::Tensor& all) {
      return all[step].narrow(0, world.rank() * rows, rows);
    };
    torch::nn::functional::cross_entropy(model.forward(mine(data)),
                                         mine(target))
        .backward();
    optimizer.step();
  }
  if (world.rank() == 0)
    sheaf::tensor::save_state_dict(folder + "/sheaf.pt",
                                   sheaf::tensor::state_dict(*net));
}
