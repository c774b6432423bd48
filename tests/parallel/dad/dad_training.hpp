#pragma once
// Training runs with dAD and in a single process, to be compared.

#include <gtest/gtest.h>

#include <mutex>

#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "tests/parallel/dad/dad_networks.hpp"

namespace sheaf::parallel::test {

inline constexpr int kSteps = 50;
// Not divisible by any number of ranks.
inline constexpr std::int64_t kBatch = 17;

struct Setting {
  at::ScalarType type = at::kDouble;
  int pieces = 1;
  bool sync_norm = false;
  double decay = 0;  // L2 penalty of the parameters in the loss
  DadOptions options = {};
};

template <class Net>
std::shared_ptr<Net> make_net(const std::function<std::shared_ptr<Net>()>& make,
                              at::ScalarType type, int seed) {
  // Torch's default generator is shared by all threads.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  auto net = make();
  net->to(type);
  return net;
}

inline at::Tensor squares_of(const torch::nn::Module& net) {
  at::Tensor sum = net.parameters()[0].square().sum();
  for (const auto& one : net.parameters()) sum = sum + one.square().sum();
  return sum;
}

template <class Net>
std::vector<at::Tensor> train_alone(
    const std::function<std::shared_ptr<Net>()>& make, const Setting& setting) {
  auto net = make_net(make, setting.type, 1);
  const auto start = weights_of(*net);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const Examples all = examples(step, kBatch, setting.type);
    at::Tensor loss = part_of_loss(net->forward(all.data), all, kBatch);
    if (setting.decay > 0) loss = loss + setting.decay * squares_of(*net);
    loss.backward();
    optimizer.step();
  }
  EXPECT_GT(distance(weights_of(*net), start), 0.05) << "it learns nothing";
  return weights_of(*net);
}

// Each rank's loss is the mean over its own rows, as users write it.
template <class Net>
std::vector<at::Tensor> train_together(
    const std::function<std::shared_ptr<Net>()>& make, const Setting& setting,
    const comm::Group& group) {
  // Different initial weights: rank 0's weights must reach all ranks.
  auto net = make_net(make, setting.type, 1 + group.rank());
  if (setting.sync_norm) use_sync_batch_norm(*net, group);
  DadOptions options = setting.options;
  // Not all ranks use all of its layers.
  options.find_unused_parameters = std::is_same_v<Net, SharedNetImpl>;
  // Measuring would take too long.
  options.link = LinkModel{.ranks = group.size()};
  DadParallel model(net, group, options);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const Examples all = examples(step, kBatch, setting.type);
    for (int i = 0; i < setting.pieces; ++i) {
      const Examples piece = share_of(all, i, setting.pieces);
      const Examples mine = share_of(piece, group.rank(), group.size());
      std::optional<Strategy::NoSync> guard;
      if (i + 1 < setting.pieces) guard.emplace(model);
      // The weight of a piece is its share of the rows of the batch.
      const double part = static_cast<double>(piece.data.size(0)) / kBatch;
      at::Tensor loss =
          part_of_loss(model.forward(mine.data), mine,
                       std::max<std::int64_t>(1, mine.data.size(0))) *
          part;
      if (setting.decay > 0)
        loss = loss + part * setting.decay * squares_of(*net);
      loss.backward();
    }
    optimizer.step();
  }
  model.check_weights();
  if (setting.sync_norm) use_local_batch_norm(*net);
  return weights_of(*net);
}

template <class Net, class... Args>
std::function<std::shared_ptr<Net>()> maker(Args... args) {
  return [=] { return std::make_shared<Net>(args...); };
}

}  // namespace sheaf::parallel::test
