// Filters that are trained only by the rank that owns their position.

#include "sheaf/spatial/ops/placed_filters.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/nn/locally_connected.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "tests/spatial/training.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

// For images of 28 x 28. The network has other parameters than filters, and
// biases.
struct FilteredImpl : torch::nn::Module {
  nn::LocallyConnected2d first{nn::LocallyConnectedOptions{
      .out_channels = 3, .image = {28, 28}, .kernel = {5, 4}, .bias = true}};
  torch::nn::Conv2d middle{torch::nn::Conv2dOptions(3, 2, 3)};
  nn::LocallyConnected2d second{nn::LocallyConnectedOptions{.in_channels = 2,
                                                            .out_channels = 2,
                                                            .image = {22, 23},
                                                            .kernel = {3, 3},
                                                            .stride = {2, 2},
                                                            .padding = {1, 1}}};
  torch::nn::Linear last{2 * 11 * 12, 3};

  FilteredImpl() {
    register_module("first", first);
    register_module("middle", middle);
    register_module("second", second);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = middle(torch::tanh(first(x)));
    return last(torch::tanh(second(y)).flatten(1));
  }
};

NamedTensors copies_of(const torch::nn::Module& module) {
  NamedTensors copies;
  for (const auto& item : module.named_parameters())
    copies.emplace_back(item.key(), item.value().detach().clone());
  return copies;
}

struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;
  NamedTensors weights;  // gathered
  NamedTensors own;      // before gathering
  std::int64_t bytes = 0;
};

constexpr double kClip = 0.5;

Trained trained_alone() {
  auto net = make_net<FilteredImpl>(1);
  torch::optim::Adam optimizer(net->parameters(), 0.002);
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss =
        loss_of(net->forward(images_of(step, {})), step, {}, 0, kSamples);
    loss.backward();
    result.norms.push_back(parallel::clip_gradients(*net, kClip));
    optimizer.step();
    result.losses.push_back(loss.item<double>());
  }
  result.weights = copies_of(*net);
  return result;
}

Trained trained_on(const std::string& grid, int samples,
                   const comm::Group& group, bool owns_filters = true) {
  auto net = make_net<FilteredImpl>(1 + std::uint64_t(group.rank()));
  SpatialParallel model(
      net, group,
      {.grid = grid, .samples = samples, .owns_filters = owns_filters});
  torch::optim::Adam optimizer(net->parameters(), 0.002);
  const std::int64_t count = kSamples / samples;
  const std::int64_t first = model.sample_group() * count;
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor images = images_of(step, {}).narrow(0, first, count);
    const at::Tensor loss =
        loss_of(model.forward(images), step, {}, first, count);
    loss.backward();
    result.norms.push_back(model.clip_gradients(kClip));
    optimizer.step();
    const at::Tensor mean = loss.detach().clone();
    tensor::all_reduce(group, mean, {.op = comm::ReduceOp::kAvg}).wait();
    result.losses.push_back(mean.item<double>());
  }
  model.check_weights();
  result.bytes = model.stats().bytes;
  result.own = copies_of(*net);
  model.gather_weights();
  result.weights = copies_of(*net);
  return result;
}

TEST(PlacedFilters, TrainAsInOneProcess) {
  const Trained wanted = trained_alone();
  const std::vector<std::pair<std::string, int>> cases{
      {"1x1", 1}, {"1x2", 1}, {"2x2", 1}, {"3", 1}, {"2x3", 1}, {"2x1", 2}};
  for (const auto& [grid, samples] : cases)
    comm::run_threads(
        halo::Grid::parse(grid).ranks() * samples,
        [&, grid = grid, samples = samples](const comm::Group& group) {
          const Trained found = trained_on(grid, samples, group);
          expect_near(found.losses, wanted.losses, grid);
          expect_near(found.norms, wanted.norms, grid + ", norms");
          for (std::size_t i = 0; i < wanted.weights.size(); ++i)
            EXPECT_LT((found.weights[i].second - wanted.weights[i].second)
                          .abs()
                          .max()
                          .item<double>(),
                      1e-9)
                << grid << " " << wanted.weights[i].first;
        });
}

// Positions of other ranks stay outdated, and their gradients are not sent.
TEST(PlacedFilters, AreNotExchanged) {
  comm::run_threads(2, [&](const comm::Group& group) {
    const Trained own = trained_on("1x2", 1, group);
    const Trained averaged = trained_on("1x2", 1, group, false);
    EXPECT_EQ(own.own[0].first, "first.weight");
    EXPECT_FALSE(at::equal(own.own[0].second, own.weights[0].second));
    EXPECT_TRUE(at::equal(averaged.own[0].second, averaged.weights[0].second));
    std::int64_t filters = 0;
    for (const auto& [name, tensor] : own.weights)
      if (name == "first.weight" || name == "second.weight")
        filters += static_cast<std::int64_t>(tensor.nbytes());
    // Two ranks send each other half of the averaged data, twice.
    EXPECT_LT(own.bytes, averaged.bytes - kSteps * filters / 2);
  });
}

TEST(PlacedFilters, OtherUsesAreSeen) {
  comm::run_threads(2, [](const comm::Group& group) {
    auto net = make_net<FilteredImpl>(1);
    SpatialParallel model(net, group, {.grid = "1x2", .owns_filters = true});
    const at::Tensor output = model.forward(images_of(0, {}));
    const at::Tensor loss =
        loss_of(output, 0, {}, 0, kSamples) + net->first->weight.pow(2).sum();
    expect_throws<UsageError>([&] { loss.backward(); },
                              {"first.weight", "owns_filters"});
  });
}

TEST(PlacedFilters, CannotDecode) {
  comm::run_threads(2, [](const comm::Group& group) {
    auto net = make_net<FilteredImpl>(1);
    SpatialParallel model(net, group, {.grid = "1x2", .owns_filters = true});
    const at::Tensor y =
        net->first->encode(model.cut(images_of(0, {})), net->first->weight);
    expect_throws<UsageError>(
        [&] { net->first->decode(y, net->first->weight); },
        {"locally_connected2d_transposed", "owns_filters"});
  });
}

TEST(PlacedFilters, RanksWithTheSamePlaceAreCompared) {
  comm::run_threads(4, [](const comm::Group& group) {
    auto net = make_net<FilteredImpl>(1);
    SpatialParallel model(net, group,
                          {.grid = "1x2", .samples = 2, .owns_filters = true});
    loss_of(model.forward(images_of(0, {})), 0, {}, 0, kSamples).backward();
    model.check_weights();
    const at::NoGradGuard no_grad;
    // A change at a position of another rank is ignored, a change at an own one
    // is not.
    const bool is_left = group.rank() % 2 == 0;
    if (group.rank() >= 2)
      net->first->weight.select(3, is_left ? 24 : 0).add_(1);
    model.check_weights();
    if (group.rank() >= 2)
      net->first->weight.select(3, is_left ? 0 : 24).add_(1);
    EXPECT_THROW(model.check_weights(), CheckError);
  });
}

TEST(PlacedFilters, WithoutOtherParametersThereAreNone) {
  nn::LocallyConnected2d alone(nn::LocallyConnectedOptions{
      .image = {8, 8}, .kernel = {3, 3}, .bias = false});
  EXPECT_TRUE(local_filters(*alone).empty());
  EXPECT_EQ(local_filters(*make_net<FilteredImpl>(1)).size(), 2u);
}

// A first pass without gradients, as with a loss of 0, shows no use of the
// filters, so the second pass is checked too.
TEST(PlacedFilters, OtherUsesAreSeenAfterAPassWithoutGradients) {
  comm::run_threads(2, [](const comm::Group& group) {
    auto net = make_net<FilteredImpl>(1);
    SpatialParallel model(net, group, {.grid = "1x2", .owns_filters = true});
    const auto loss = [&] {
      return loss_of(model.forward(images_of(0, {})), 0, {}, 0, kSamples);
    };
    (0 * loss()).backward();
    const at::Tensor wrong = loss() + net->first->weight.pow(2).sum();
    expect_throws<UsageError>([&] { wrong.backward(); }, {"first.weight"});
  });
}

}  // namespace
}  // namespace sheaf::spatial
