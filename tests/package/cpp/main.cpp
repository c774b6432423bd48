// usage: cpp RANKS, where RANKS is the number of ranks it is started on.
#include <cstdlib>
#include <iostream>
#include <sheaf/sheaf.hpp>
#include <vector>

#ifdef SHEAF_WITH_TORCH
#include <torch/torch.h>

// Trains a linear layer on different data on each rank; returns whether all
// ranks have the same weights.
bool train(const sheaf::World& world) {
  torch::manual_seed(world.rank());
  torch::nn::Linear net(4, 1);
  sheaf::DataParallel model(net, world, {.bucket_mb = 1});
  sheaf::Sgd optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  const auto data = torch::rand({8, 4});
  for (int step = 0; step < 3; ++step) {
    sheaf::forget_gradients(*net);
    torch::mse_loss(model(data), data.sum(1, /*keepdim=*/true)).backward();
    optimizer.step();
  }
  model.check_weights();
  return sheaf::state_dict(*net).size() == 2;
}
#else
bool train(const sheaf::World&) { return true; }
#endif

int run(int ranks, int argc, char** argv) {
  auto world = sheaf::init(argc, argv);
  std::vector<float> data(1000, static_cast<float>(world.rank() + 1));
  sheaf::all_reduce(world, data).wait();
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  std::cout << world.rank() << " of " << world.size() << ": " << data.back()
            << "\n";
  const bool is_right =
      world.size() == ranks && data.front() == sum && data.back() == sum;
  return is_right && train(world) ? 0 : 1;
}

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::atoi(argv[1]) : 1, argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return sheaf::exit_code(error);
  }
}
