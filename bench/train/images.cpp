// Training throughput of an image network in images per second:
//   sheaf run -n 1 -- build/bench/train_images --device cuda
// Rank 0 prints one JSON object; python_images.py does the same in Python.

#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "sheaf/nn/network.hpp"
#include "sheaf/nn/sgd.hpp"
#include "sheaf/sheaf.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string network = "resnet50";
  std::string device = "cpu";
  int rows = 64;
  int side = 224;
  int steps = 30;
  int warmup = 10;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Measure the training throughput in images per second");
  app.add_option("--network", options.network,
                 "A network in docs/reference/networks.md");
  app.add_option("--device", options.device, "cpu, cuda, cuda:1 ...");
  app.add_option("--rows", options.rows, "Images per rank and step");
  app.add_option("--side", options.side, "Side of an image in pixels");
  app.add_option("--steps", options.steps, "Number of timed steps");
  app.add_option("--warmup", options.warmup, "Number of untimed steps before");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const auto world = sheaf::init(argc, argv);
  const Options options = parse(argc, argv);
  const torch::Device device(options.device);
  auto net = sheaf::nn::make_network(
      {.name = options.network, .arguments = {}, .layers = {}});
  net->to(device);
  sheaf::DataParallel model(net, world);
  sheaf::nn::Sgd optimizer(net->parameters(),
                           torch::optim::SGDOptions(0.01).momentum(0.9));
  const auto data = torch::randn({options.rows, 3, options.side, options.side},
                                 torch::TensorOptions(device));
  const auto target = torch::randint(
      1000, {options.rows}, torch::TensorOptions(device).dtype(torch::kLong));
  double loss = 0;
  auto start = Clock::now();
  for (int step = -options.warmup; step < options.steps; ++step) {
    if (step == 0) start = Clock::now();
    sheaf::forget_gradients(*net);
    auto error =
        torch::nn::functional::cross_entropy(model.forward(data), target);
    error.backward();
    optimizer.step();
    // Waits for the device, so that pending work is included.
    if (step == -1 || step == options.steps - 1) loss = error.item<double>();
  }
  if (device.is_cuda()) torch::cuda::synchronize();
  const std::chrono::duration<double> time = Clock::now() - start;
  const double images = double(options.rows) * world.size() * options.steps;
  if (world.rank() == 0)
    fmt::print(
        "{{\"network\": \"{}\", \"device\": \"{}\", \"ranks\": {}, \"rows\": "
        "{}, \"images_per_s\": {:.1f}, \"step_ms\": {:.3f}, \"loss\": "
        "{:.4f}}}\n",
        options.network, options.device, world.size(), options.rows,
        images / time.count(), time.count() * 1e3 / options.steps, loss);
}
