// Stops in the middle of training and resumes from a checkpoint, like an
// interrupted run: the final weights are identical, bit for bit.
//   sheaf run -n 2 -- build/examples/04_checkpoint [FOLDER]
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <sheaf/sheaf.hpp>

using torch::nn::Linear;

class Training {
 public:
  explicit Training(const sheaf::World& world)
      : world_(world),
        net_(Linear(4, 16), torch::nn::Tanh(), Linear(16, 1)),
        model_(net_, world),
        optimizer_(net_->parameters(), 0.01) {}

  // Examples depend only on step and rank, so training can start at any step.
  void step(int number) {
    torch::manual_seed(
        static_cast<std::uint64_t>(number * 1000 + world_.rank()));
    const auto data = torch::rand({16, 4});
    const auto target = data.prod(1, /*keepdim=*/true);
    sheaf::forget_gradients(*net_);
    torch::mse_loss(model_.forward(data), target).backward();
    optimizer_.step();
  }

  // All ranks hold the same state: one of them writes it.
  void save(const std::filesystem::path& folder) {
    if (world_.rank() == 0) {
      sheaf::save_state_dict(folder / "net.pt", sheaf::state_dict(*net_));
      torch::save(optimizer_, (folder / "optimizer.pt").string());
    }
    sheaf::barrier(world_).wait();
  }
  void load(const std::filesystem::path& folder) {
    sheaf::load_state_dict(*net_,
                           sheaf::load_state_dict_file(folder / "net.pt"));
    torch::load(optimizer_, (folder / "optimizer.pt").string());
  }

  bool has_weights_of(const Training& other) const {
    const auto mine = net_->parameters();
    const auto theirs = other.net_->parameters();
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (!mine[i].equal(theirs[i])) return false;
    return true;
  }

 private:
  const sheaf::World& world_;
  torch::nn::Sequential net_;
  sheaf::DataParallel<torch::nn::SequentialImpl> model_;
  torch::optim::Adam optimizer_;
};

int main(int argc, char** argv) {
  const auto world = sheaf::init(argc, argv);
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  torch::manual_seed(1);
  Training whole(world);
  for (int step = 0; step < 40; ++step) {
    whole.step(step);
    if (step == 19) whole.save(folder);
  }

  Training resumed(world);
  resumed.load(folder);
  for (int step = 20; step < 40; ++step) resumed.step(step);

  const bool is_same = resumed.has_weights_of(whole);
  if (world.rank() == 0)
    std::printf("resumed weights are %s\n", is_same ? "the same" : "different");
  return is_same ? 0 : 1;
}
