// Fits a line on all ranks and writes its weights for Python. Then:
//   python3 examples/05_weights_for_python.py line.pt
#include <torch/torch.h>

#include <sheaf/sheaf.hpp>

int main(int argc, char** argv) {
  const auto world = sheaf::init(argc, argv);
  torch::nn::Sequential net(torch::nn::Linear(1, 1));
  sheaf::DataParallel model(net, world);
  torch::optim::SGD optimizer(net->parameters(), 0.2);
  sheaf::seed_rank(1, world);
  for (int step = 0; step < 300; ++step) {
    const auto x = torch::rand({32, 1});
    sheaf::forget_gradients(*net);
    torch::mse_loss(model.forward(x), 3 * x + 1).backward();
    optimizer.step();
  }
  if (world.rank() == 0)
    sheaf::save_state_dict(argc > 1 ? argv[1] : "line.pt",
                           sheaf::state_dict(*net));
}
