// Time of a training step of the MLP 784-2048-1024-512-256-10, with and without
// an exchange, in turns: `sheaf run -n 2 -- build/bench/train_step ROWS STEPS`.
// Rank 0 prints one JSON object.

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>

#include "sheaf/sheaf.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    int from = 784;
    for (const int to : {2048, 1024, 512, 256, 10}) {
      layers.push_back(register_module(fmt::format("layer{}", layers.size()),
                                       torch::nn::Linear(from, to)));
      from = to;
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = layers[i](x);
      if (i + 1 < layers.size()) x = torch::relu(x);
    }
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Mlp);

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Trainer {
 public:
  Trainer() : optimizer_(net_->parameters(), 0.01) {}

  template <class Forward>
  double step_ms(Forward forward, const at::Tensor& data,
                 const at::Tensor& target) {
    const auto start = Clock::now();
    sheaf::forget_gradients(*net_);
    torch::nn::functional::cross_entropy(forward(data), target).backward();
    optimizer_.step();
    return std::chrono::duration<double, std::milli>(Clock::now() - start)
        .count();
  }
  Mlp& net() { return net_; }

 private:
  Mlp net_;
  torch::optim::SGD optimizer_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto world = sheaf::init(argc, argv);
  const int rows = argc > 1 ? std::atoi(argv[1]) : 64;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 50;
  const std::string overlap = argc > 3 ? argv[3] : "auto";
  torch::set_num_threads(1);
  sheaf::seed_rank(1, world);
  const auto data = torch::randn({rows, 784});
  const auto target = torch::randint(10, {rows});
  Trainer alone;
  Trainer together;
  sheaf::DataParallel model(
      together.net(), world,
      {.overlap = overlap == "on"    ? sheaf::parallel::Overlap::kOn
                  : overlap == "off" ? sheaf::parallel::Overlap::kOff
                                     : sheaf::parallel::Overlap::kAuto});
  std::vector<double> without;
  std::vector<double> with;
  constexpr int kBlock = 10;  // long enough for caches to forget the other
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < kBlock; ++i) {
      const double ms = alone.step_ms(
          [&](const auto& x) { return alone.net()->forward(x); }, data, target);
      if (i >= 2 && step > 0) without.push_back(ms);
    }
    sheaf::barrier(world);
    for (int i = 0; i < kBlock; ++i) {
      const double ms = together.step_ms(
          [&](const auto& x) { return model.forward(x); }, data, target);
      if (i >= 2 && step > 0) with.push_back(ms);
    }
    sheaf::barrier(world);
  }
  const auto stats = model.stats();
  if (world.rank() == 0)
    fmt::print(
        "{{\"rows\": {}, \"ranks\": {}, \"alone_ms\": {:.3f}, \"step_ms\": "
        "{:.3f}, \"ratio\": {:.3f}, \"exchange_ms\": {:.3f}, \"wait_ms\": "
        "{:.3f}}}\n",
        rows, world.size(), median(without), median(with),
        median(with) / median(without),
        stats.exchange_ms / static_cast<double>(stats.passes),
        stats.wait_ms / static_cast<double>(stats.passes));
}
