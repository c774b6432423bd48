#pragma once
// Training runs on a grid and in a single process, to be compared.

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "sheaf/spatial/spatial_parallel.hpp"
#include "tests/spatial/networks.hpp"
#include "tests/spatial/same_as_alone.hpp"

namespace sheaf::spatial::test {

inline constexpr int kSteps = 20;
inline constexpr std::int64_t kSamples = 4;

struct Task {
  std::int64_t image = 28;
  bool has_classes_of_pixels = false;
};

inline at::Tensor loss_of(const at::Tensor& output, int step, const Task& task,
                          std::int64_t first, std::int64_t samples) {
  const auto seed = static_cast<std::uint64_t>(1000 + step);
  const at::Tensor values =
      task.has_classes_of_pixels
          ? random({kSamples, task.image, task.image}, at::kDouble, seed)
          : random({kSamples}, at::kDouble, seed);
  const at::Tensor target =
      values.abs().clamp_max(2.9).to(at::kLong).narrow(0, first, samples);
  return torch::nn::functional::cross_entropy(output, target);
}

inline at::Tensor images_of(int step, const Task& task) {
  return random({kSamples, 1, task.image, task.image}, at::kDouble,
                static_cast<std::uint64_t>(step));
}

template <class Net>
std::shared_ptr<Net> make_net(std::uint64_t seed) {
  // Torch's default generator is shared by all threads.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(seed);
  auto net = std::make_shared<Net>();
  net->to(at::kDouble);
  return net;
}

template <class Net>
std::vector<double> losses_alone(const Task& task) {
  auto net = make_net<Net>(1);
  torch::optim::SGD optimizer(net->parameters(), 0.05);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss =
        loss_of(net->forward(images_of(step, task)), step, task, 0, kSamples);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  EXPECT_GT(std::abs(losses.front() - losses.back()), 1e-3)
      << "it learns nothing";
  return losses;
}

// How ranks share the samples: the number of samples of each group.
struct Sharing {
  std::vector<std::int64_t> rows;
  bool has_moments_of_all = false;  // batch normalization over all groups

  std::int64_t first_of(int group) const {
    return std::accumulate(rows.begin(), rows.begin() + group, std::int64_t{0});
  }
};

// The mean losses over all samples.
template <class Net>
std::vector<double> losses_on(const std::string& grid, const Sharing& sharing,
                              const Task& task, const comm::Group& group) {
  auto net = make_net<Net>(1 + static_cast<std::uint64_t>(group.rank()));
  if (sharing.has_moments_of_all) parallel::use_sync_batch_norm(*net, group);
  const auto groups = static_cast<int>(sharing.rows.size());
  SpatialParallel model(net, group, {.grid = grid, .samples = groups});
  torch::optim::SGD optimizer(net->parameters(), 0.05);
  const std::int64_t rows =
      sharing.rows[static_cast<std::size_t>(model.sample_group())];
  const std::int64_t first = sharing.first_of(model.sample_group());
  // Gradients are averaged over ranks, so a sample is weighted by the number of
  // groups.
  const double weight = static_cast<double>(rows * groups) / kSamples;
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor images = images_of(step, task).narrow(0, first, rows);
    const at::Tensor loss =
        weight * loss_of(model.forward(images), step, task, first, rows);
    loss.backward();
    optimizer.step();
    const at::Tensor mean = loss.detach().clone();
    tensor::all_reduce(group, mean, {.op = comm::ReduceOp::kAvg}).wait();
    losses.push_back(mean.item<double>());
  }
  model.check_weights();
  return losses;
}

template <class Net>
std::vector<double> losses_on(const std::string& grid, int samples,
                              const Task& task, const comm::Group& group) {
  const auto groups = static_cast<std::size_t>(samples);
  return losses_on<Net>(
      grid, {.rows = std::vector<std::int64_t>(groups, kSamples / samples)},
      task, group);
}

inline void expect_near(const std::vector<double>& found,
                        const std::vector<double>& wanted,
                        const std::string& where) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i], 1e-10) << where << ", step " << i;
}

}  // namespace sheaf::spatial::test
