// Trains a small network on the two-moons dataset, with any number of ranks:
//   sheaf run -n 2 -- build/examples/03_data_parallel
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <sheaf/sheaf.hpp>

struct NetImpl : torch::nn::Module {  // independent of ranks
  NetImpl() {
    first = register_module("first", torch::nn::Linear(2, 32));
    last = register_module("last", torch::nn::Linear(32, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return last(torch::tanh(first(x)));
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
};
TORCH_MODULE(Net);

// Points on one of two interleaved half circles, chosen by `phase` (0 or 1).
torch::Tensor moon(int phase, int count) {
  const auto angle = torch::rand({count}) * M_PI + phase * M_PI;
  const auto points = torch::stack({angle.cos() + phase, angle.sin()}, 1);
  return points + 0.1 * torch::randn({count, 2});
}

int main(int argc, char** argv) {
  auto world = sheaf::init(argc, argv);
  torch::manual_seed(1);
  Net net;
  sheaf::DataParallel model(net, world);  // broadcasts rank 0's weights
  torch::optim::Adam optimizer(net->parameters(), 0.01);

  sheaf::seed_rank(2, world);  // each rank draws different examples
  for (int step = 0; step < 300; ++step) {
    const auto data = torch::cat({moon(0, 32), moon(1, 32)});
    const auto target =
        torch::cat({torch::zeros({32}), torch::ones({32})}).to(torch::kLong);
    sheaf::forget_gradients(*net);
    torch::nn::functional::cross_entropy(model.forward(data), target)
        .backward();  // gradients are averaged over ranks on return
    optimizer.step();
  }

  const auto test = torch::cat({moon(0, 500), moon(1, 500)});
  const auto right = torch::cat({torch::zeros({500}), torch::ones({500})});
  auto correct = (net->forward(test).argmax(1) == right).sum();
  sheaf::all_reduce(world, correct).wait();
  model.check_weights();  // all ranks hold the same bits
  const double accuracy = correct.item<double>() / (1000 * world.size());
  if (world.rank() == 0) std::printf("accuracy %.2f\n", accuracy);
  return accuracy > 0.98 ? 0 : 1;
}
