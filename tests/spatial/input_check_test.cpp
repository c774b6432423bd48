// Ranks of a grid that were given different images, and loaders that give them
// the same images.

#include "sheaf/spatial/input_check.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/data/load/loader.hpp"
#include "sheaf/spatial/spatial_parallel.hpp"
#include "tests/spatial/same_as_alone.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

std::shared_ptr<torch::nn::Conv2dImpl> small_net() {
  return std::make_shared<torch::nn::Conv2dImpl>(
      torch::nn::Conv2dOptions(1, 1, 3).padding(1));
}

std::shared_ptr<const data::Dataset> images() {
  return std::make_shared<data::TensorDataset>(
      random({12, 1, 6, 6}, at::kFloat, 1), at::arange(12));
}

TEST(SpatialInputs, OfRanksOfAGridMustBeTheSame) {
  comm::run_threads(4, [](const comm::Group& group) {
    SpatialParallel model(small_net(), group, {.grid = "1x2"});
    // Two grids; in the second one, rank 3 has a different image.
    const at::Tensor image =
        random({1, 1, 4, 4}, at::kFloat, 1 + (group.rank() == 3 ? 1 : 0));
    if (model.sample_group() == 0) {
      EXPECT_NO_THROW(model.check_inputs({image}));
    } else {
      expect_throws<UsageError>(
          [&] { model.check_inputs({image}); },
          {"contents", "on rank 3 differ from rank 2's", "model.samples()"});
      expect_throws<UsageError>(
          [&] {
            model.check_inputs({at::zeros({1, 1, 4, group.rank()})});
          },
          {"types or sizes", "on rank 3 differ"});
      expect_throws<UsageError>(
          [&] {
            model.check_inputs(
                {at::zeros({2, 2}, group.rank() == 3 ? at::kInt : at::kFloat)});
          },
          {"types or sizes"});
    }
    // Parts may differ.
    EXPECT_NO_THROW(model.check_inputs(
        {model.from_part(at::full({1, 1, 4, 2}, group.rank()), {1, 1, 4, 4})}));
  });
}

TEST(SpatialInputs, AreComparedInTheFirstStep) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto step = [&](CheckInputs check, bool same_first) {
      SpatialParallel model(small_net(), group,
                            {.grid = "2x1", .check_inputs = check});
      const auto run = [&](bool is_same) {
        model.forward(
            random({1, 1, 4, 4}, at::kFloat,
                   is_same ? 0 : static_cast<unsigned>(group.rank())));
      };
      if (same_first) run(true);
      run(false);
    };
    const auto is_refused = [&](CheckInputs check, bool same_first) {
      return !error_of<UsageError>([&] { step(check, same_first); }).empty();
    };
    EXPECT_TRUE(is_refused(CheckInputs::kFirst, false));
    EXPECT_FALSE(is_refused(CheckInputs::kFirst, true));
    EXPECT_TRUE(is_refused(CheckInputs::kEvery, true));
    EXPECT_FALSE(is_refused(CheckInputs::kNever, false));
    // Also in evaluation.
    auto net = small_net();
    SpatialParallel model(net, group, {.grid = "2x1"});
    model.forward(at::zeros({1, 1, 4, 4}));
    net->eval();
    expect_throws<UsageError>(
        [&] {
          model.forward(at::full({1, 1, 4, 4}, group.rank()));
        },
        {"contents"});
  });
}

struct ManyInputsImpl : torch::nn::Module {
  using Pair = std::tuple<at::Tensor, int>;
  ManyInputsImpl() : conv(register_module("conv", small_net())) {}
  at::Tensor forward(const at::Tensor& x, const std::vector<at::Tensor>&,
                     const Pair&, double factor) {
    return conv->forward(x) * factor;
  }
  std::shared_ptr<torch::nn::Conv2dImpl> conv;
};

TEST(SpatialInputs, InListsAndTuplesAreCompared) {
  comm::run_threads(2, [](const comm::Group& group) {
    SpatialParallel model(std::make_shared<ManyInputsImpl>(), group,
                          {.grid = "1x2", .check_inputs = CheckInputs::kEvery});
    const at::Tensor same = at::ones({1, 1, 4, 4});
    const at::Tensor other = same + group.rank();
    using Pair = ManyInputsImpl::Pair;
    const std::vector<at::Tensor> list{same}, other_list{other};
    EXPECT_NO_THROW(model.forward(same, list, Pair(same, 1), 2.0));
    expect_throws<UsageError>(
        [&] { model.forward(same, other_list, Pair(same, 1), 2.0); },
        {"contents", "on rank 1 differ"});
    expect_throws<UsageError>(
        [&] { model.forward(same, list, Pair(other, 1), 2.0); },
        {"contents", "on rank 1 differ"});
    expect_throws<UsageError>(
        [&] {
          model.forward(same,
                        group.rank() == 0 ? list : std::vector{same, same},
                        Pair(same, 1), 2.0);
        },
        {"types or sizes"});
  });
}

// The samples of a loader without the group of samples.
TEST(SpatialInputs, OfALoaderForAllRanksAreRefused) {
  comm::run_threads(2, [](const comm::Group& group) {
    SpatialParallel model(small_net(), group, {.grid = "1x2"});
    data::Loader loader(images(), group, {.batch_size = 2});
    expect_throws<UsageError>(
        [&] {
          for (const data::Batch& batch : loader) model.forward(batch.data);
        },
        {"contents", "data::Loader(dataset, model.samples()"});
  });
}

TEST(SpatialInputs, OfALoaderForTheSamplesAreShared) {
  std::mutex mutex;
  std::vector<std::multiset<std::int64_t>> seen(4);
  comm::run_threads(4, [&](const comm::Group& group) {
    SpatialParallel model(small_net(), group,
                          {.grid = "1x2", .check_inputs = CheckInputs::kEvery});
    EXPECT_EQ(model.samples().size(), 2);
    EXPECT_EQ(model.samples().rank(), model.sample_group());
    data::Loader loader(images(), model.samples(), {.batch_size = 2});
    EXPECT_EQ(loader.global_batch(), 4);
    for (const data::Batch& batch : loader) {
      model.forward(batch.data);
      const std::lock_guard lock(mutex);
      for (std::int64_t i = 0; i < batch.size(); ++i)
        seen[static_cast<std::size_t>(group.rank())].insert(
            batch.target[i].item<std::int64_t>());
    }
  });
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[2], seen[3]);
  seen[0].merge(seen[2]);
  EXPECT_EQ(seen[0].size(), 12u);
  EXPECT_EQ(std::set<std::int64_t>(seen[0].begin(), seen[0].end()).size(), 12u);
}

struct OnDeviceImpl : torch::nn::Module {
  OnDeviceImpl() { register_parameter("weight", at::empty({3}, at::kMeta)); }
  at::Tensor forward(const at::Tensor& x) { return x; }
};

TEST(SpatialInputs, ModulesOnDevicesAreRefused) {
  comm::run_threads(2, [](const comm::Group& group) {
    expect_throws<UsageError>(
        [&] {
          SpatialParallel(std::make_shared<OnDeviceImpl>(), group,
                          {.grid = "1x2"});
        },
        {"the parameter weight", "meta", "kCPU"});
  });
}

}  // namespace
}  // namespace sheaf::spatial
