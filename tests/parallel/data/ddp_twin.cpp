// Trains the cases of tests/parallel/data/python_ddp.py with DataParallel:
//   ddp_twin FOLDER CASE

#include <torch/torch.h>

#include <functional>
#include <map>

#include "sheaf/sheaf.hpp"
#include "sheaf/tensor/files/state_dict.hpp"

namespace {

using sheaf::DataParallel;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool has_norm) {
    conv = register_module(
        "conv",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
    if (has_norm) norm = register_module("norm", torch::nn::BatchNorm2d(4));
    first = register_module("first", torch::nn::Linear(4 * 36, 20));
    tied = register_module("tied", torch::nn::Linear(20, 20));
    again = register_module("again", tied);
    side = register_module("side", torch::nn::Linear(20, 5));
    last = register_module("last", torch::nn::Linear(20, 5));
    to(torch::kDouble);
  }
  at::Tensor forward(at::Tensor x) {
    x = conv(x);
    if (norm) x = norm(x);
    at::Tensor hidden = torch::tanh(first(torch::relu(x).flatten(1)));
    if (has_hook && hidden.requires_grad())
      hidden.register_hook([](const at::Tensor& g) { return g * 0.5; });
    hidden = again(torch::tanh(tied(hidden)));
    return uses_side ? last(hidden) + side(hidden) : last(hidden);
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear first{nullptr}, tied{nullptr}, again{nullptr},
      side{nullptr}, last{nullptr};
  bool has_hook = false;
  bool uses_side = true;
};
TORCH_MODULE(Net);

at::Tensor entry(const sheaf::tensor::StateDict& dict, const char* name) {
  for (const auto& [key, tensor] : dict)
    if (key == name) return tensor;
  throw sheaf::UsageError(sheaf::concat("no ", name));
}

class Twin {
 public:
  Twin(const sheaf::Group& world, std::string folder, bool has_norm)
      : world_(world), folder_(std::move(folder)), net_(make_net(has_norm)) {
    const auto examples =
        sheaf::tensor::load_state_dict_file(folder_ + "/data.pt");
    data_ = entry(examples, "data");
    target_ = entry(examples, "target");
  }

  void hooks() {
    net_->has_hook = true;
    net_->first->weight.register_hook(
        [](const at::Tensor& g) { return g * 2; });
    train(sheaf::DataParallelOptions{});
  }

  void unused() {
    before_step_ = [this](std::int64_t step) {
      net_->uses_side = world_.rank() == 0 && step % 2 == 1;
    };
    train({.find_unused_parameters = true});
  }

  void join() {
    DataParallel model(net_, world_);
    auto guard = model.join();
    const std::int64_t mine = data_.size(0) - 7 * world_.rank();
    for (std::int64_t step = 0; step < mine; ++step) this->step(model, step);
    guard.finish();
  }

  void sync_norm() {
    sheaf::use_sync_batch_norm(*net_, world_);
    train({.broadcast_buffers = false});
  }

  // Each model learns from the results of the other.
  void two_models() {
    Net other = make_net(/*has_norm=*/false);
    DataParallel model(net_, world_), twin(other, world_);
    auto optimizer = make_optimizer(net_), second = make_optimizer(other);
    for (std::int64_t step = 0; step < data_.size(0); ++step) {
      optimizer->zero_grad();
      second->zero_grad();
      const at::Tensor x = mine(data_, step);
      const at::Tensor a = model.forward(x), b = twin.forward(x * 0.5);
      (loss(a, step) + (a - b.detach()).square().mean()).backward();
      (loss(b, step) + (b - a.detach()).square().mean()).backward();
      optimizer->step();
      second->step();
    }
    save(*other, "/sheaf_other.pt");
  }

  void no_sync() {
    DataParallel model(net_, world_);
    auto optimizer = make_optimizer(net_);
    for (std::int64_t step = 0; step + 1 < data_.size(0); step += 2) {
      optimizer->zero_grad();
      {
        const auto guard = model.no_sync();
        loss(model.forward(mine(data_, step)), step).backward();
      }
      loss(model.forward(mine(data_, step + 1)), step + 1).backward();
      optimizer->step();
    }
  }

  void tied_clip() {
    after_backward_ = [this] { sheaf::clip_gradients(*net_, 0.25); };
    train(sheaf::DataParallelOptions{});
  }

  void unfreeze() {
    const auto freeze = [this](bool is_frozen) {
      for (at::Tensor& one : net_->first->parameters())
        one.set_requires_grad(!is_frozen);
    };
    freeze(true);
    before_step_ = [=, this](std::int64_t step) {
      if (step == data_.size(0) / 2) freeze(false);
    };
    train(sheaf::DataParallelOptions{});
  }

  void save() { save(*net_, "/sheaf.pt"); }

 private:
  Net make_net(bool has_norm) const {
    Net net(has_norm);
    if (world_.rank() == 0)
      sheaf::tensor::load_state_dict(
          *net, sheaf::tensor::load_state_dict_file(folder_ + "/start.pt"));
    return net;
  }
  static std::unique_ptr<torch::optim::SGD> make_optimizer(const Net& net) {
    // Python's parameters() lists tied parameters once.
    std::vector<at::Tensor> parameters;
    for (const auto& item : net->named_parameters())
      if (!item.key().starts_with("again")) parameters.push_back(item.value());
    return std::make_unique<torch::optim::SGD>(
        parameters,
        torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-3));
  }
  at::Tensor mine(const at::Tensor& all, std::int64_t step) const {
    const std::int64_t rows = all.size(1) / world_.size();
    return all[step].narrow(0, world_.rank() * rows, rows);
  }
  at::Tensor loss(const at::Tensor& output, std::int64_t step) const {
    return torch::nn::functional::cross_entropy(output, mine(target_, step));
  }
  void train(const sheaf::DataParallelOptions& options) {
    DataParallel model(net_, world_, options);
    for (std::int64_t step = 0; step < data_.size(0); ++step)
      this->step(model, step);
  }
  void step(DataParallel<NetImpl>& model, std::int64_t step) {
    if (!optimizer_) optimizer_ = make_optimizer(net_);
    if (before_step_) before_step_(step);
    optimizer_->zero_grad();
    loss(model.forward(mine(data_, step)), step).backward();
    if (after_backward_) after_backward_();
    optimizer_->step();
  }
  void save(torch::nn::Module& net, const char* name) const {
    if (world_.rank() == 0)
      sheaf::tensor::save_state_dict(folder_ + name,
                                     sheaf::tensor::state_dict(net));
  }

  sheaf::Group world_;
  std::string folder_;
  Net net_;
  at::Tensor data_, target_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::function<void(std::int64_t)> before_step_;
  std::function<void()> after_backward_;
};

const std::map<std::string, void (Twin::*)()> kCases{
    {"hooks", &Twin::hooks},
    {"unused", &Twin::unused},
    {"join", &Twin::join},
    {"sync_norm", &Twin::sync_norm},
    {"two_models", &Twin::two_models},
    {"no_sync", &Twin::no_sync},
    {"tied_clip", &Twin::tied_clip},
    {"unfreeze", &Twin::unfreeze}};

}  // namespace

int main(int argc, char** argv) {
  const auto world = sheaf::init(argc, argv);
  at::set_num_threads(1);
  const std::string name = argv[2];
  Twin twin(world, argv[1], /*has_norm=*/name == "sync_norm");
  (twin.*kCases.at(name))();
  twin.save();
}
