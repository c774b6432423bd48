#include "sheaf/parallel/data/data_parallel.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
using comm::Group;
using comm::run_threads;

constexpr int kDataSteps = 50;

struct DataSetting {
  at::ScalarType type = at::kDouble;
  std::int64_t batch = 12;
  int accumulate = 1;
  DataParallelOptions options = {};
  bool sync_norm = false;
};

template <class Net>
Net make_seeded(const std::function<Net()>& make, at::ScalarType type,
                int seed) {
  // Torch's default generator is shared by all threads.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  Net net = make();
  net->to(type);
  return net;
}

torch::optim::SGD make_optimizer(const torch::nn::Module& net) {
  return torch::optim::SGD(net.parameters(),
                           torch::optim::SGDOptions(0.05).momentum(0.9));
}

template <class Net>
std::vector<at::Tensor> train_one_process(const std::function<Net()>& make,
                                          const DataSetting& setting) {
  Net net = make_seeded(make, setting.type, 1);
  auto optimizer = make_optimizer(*net);
  for (int step = 0; step < kDataSteps; ++step) {
    optimizer.zero_grad();
    const Examples all = examples(step, setting.batch, setting.type);
    part_of_loss(net->forward(all.data), all, setting.batch).backward();
    optimizer.step();
  }
  return weights_of(*net);
}

// Each rank's share is divided further for accumulation.
template <class Net>
std::vector<at::Tensor> train_ranks(const std::function<Net()>& make,
                                    const DataSetting& setting,
                                    const Group& group) {
  // Different initial weights: rank 0's weights must reach all ranks.
  Net net = make_seeded(make, setting.type, 1 + group.rank());
  if (setting.sync_norm) use_sync_batch_norm(*net, group);
  DataParallel model(net, group, setting.options);
  auto optimizer = make_optimizer(*net);
  for (int step = 0; step < kDataSteps; ++step) {
    optimizer.zero_grad();
    const Examples mine = share_of(examples(step, setting.batch, setting.type),
                                   group.rank(), group.size());
    for (int part = 0; part < setting.accumulate; ++part) {
      const Examples some = share_of(mine, part, setting.accumulate);
      std::optional<Strategy::NoSync> guard;
      if (part + 1 < setting.accumulate) guard.emplace(model);
      (part_of_loss(model.forward(some.data), some, setting.batch) *
       group.size())
          .backward();
    }
    optimizer.step();
  }
  model.check_weights();
  if (setting.sync_norm) use_local_batch_norm(*net);
  return weights_of(*net);
}

template <class Net>
void expect_as_one_process(const std::function<Net()>& make,
                           const DataSetting& setting, double tolerance) {
  const auto alone = train_one_process(make, setting);
  for (const int ranks : {1, 2, 3, 4})
    run_threads(ranks, [&](const Group& group) {
      const auto together = train_ranks(make, setting, group);
      EXPECT_LE(distance(together, alone), tolerance) << ranks << " ranks";
    });
}

const std::function<Mlp()> kMlp = [] { return Mlp(); };
const std::function<ConvNet()> kConvNet = [] { return ConvNet(false); };
const std::function<ConvNet()> kNormNet = [] { return ConvNet(true); };

TEST(DataParallel, GivesTheWeightsOfOneProcess) {
  expect_as_one_process(kMlp, {}, 1e-12);
  expect_as_one_process(kConvNet, {}, 1e-12);
  expect_as_one_process(kMlp, {.type = at::kFloat}, 1e-5);
  expect_as_one_process(kConvNet, {.type = at::kFloat}, 1e-5);
}

// A layer that only one rank has used, and only in a pass without exchange.
TEST(DataParallel, WhatCameWithoutExchangeIsAveraged) {
  run_threads(2, [](const Group& group) {
    Mlp net = make_seeded(kMlp, at::kDouble, 1);
    DataParallel model(net, group, {.find_unused_parameters = true});
    const at::Tensor x = at::ones({1, 20}, at::kDouble);
    if (group.rank() == 0) {
      const auto guard = model.no_sync();
      model.before_forward();
      net->second(x).sum().backward();
    } else {
      const auto guard = model.no_sync();
    }
    model.before_forward();
    net->last(at::ones({1, 16}, at::kDouble)).sum().backward();
    ASSERT_TRUE(net->second->bias.grad().defined());
    EXPECT_TRUE(at::allclose(net->second->bias.grad(),
                             at::full({16}, 0.5, at::kDouble)));
    EXPECT_FALSE(net->first->bias.grad().defined());
  });
}

TEST(DataParallel, GivesTheWeightsOfOneProcessWithBatchNorm) {
  DataParallelOptions options;
  options.broadcast_buffers = false;
  expect_as_one_process(kNormNet, {.options = options, .sync_norm = true},
                        1e-12);
}

TEST(DataParallel, TakesSharesOfUnequalSize) {
  expect_as_one_process(kMlp, {.batch = 7}, 1e-12);
  expect_as_one_process(kMlp, {.batch = 3},
                        1e-12);  // with 4 ranks, one has no rows
}

TEST(DataParallel, AddsUpGradientsWithoutSync) {
  expect_as_one_process(kMlp, {.accumulate = 3}, 1e-12);
}

TEST(DataParallel, BucketsOfAnySizeAndOverlap) {
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    for (const double mb : {1e-5, 1e-3, 1.0}) {
      DataParallelOptions options;
      options.bucket_mb = mb;
      options.first_bucket_mb = mb;
      options.overlap = overlap;
      expect_as_one_process(kMlp, {.options = options}, 1e-12);
    }
}

TEST(DataParallel, AverageGradientsIsTheSame) {
  run_threads(3, [](const Group& group) {
    Mlp net = make_seeded(kMlp, at::kDouble, 1);
    Mlp other = make_seeded(kMlp, at::kDouble, 1);
    DataParallel model(net, group);
    const Examples mine =
        share_of(examples(0, 12, at::kDouble), group.rank(), group.size());
    part_of_loss(model.forward(mine.data), mine, 12).backward();
    part_of_loss(other->forward(mine.data), mine, 12).backward();
    average_gradients(*other, group);
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      EXPECT_TRUE(torch::allclose(net->parameters()[i].grad(),
                                  other->parameters()[i].grad(), 1e-12));
  });
}

TEST(DataParallel, NamesParametersThatDiffer) {
  struct Odd : torch::nn::Module {
    explicit Odd(int width) {
      register_module("good", torch::nn::Linear(2, 3));
      register_module("bad", torch::nn::Linear(2, width));
    }
  };
  run_threads(3, [](const Group& group) {
    const auto net = std::make_shared<Odd>(group.rank() == 2 ? 5 : 4);
    try {
      DataParallelCore model(net, group, {});
      ADD_FAILURE() << "no error";
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("rank 2 has bad.weight"), std::string::npos) << text;
      EXPECT_NE(text.find("[5, 2]"), std::string::npos) << text;
      EXPECT_NE(text.find("[4, 2]"), std::string::npos) << text;
    }
  });
}

// Rank 1 keeps a parameter to itself that the other ranks exchange.
TEST(DataParallel, NamesAKeptParameterThatDiffers) {
  run_threads(3, [](const Group& group) {
    Mlp net = make_seeded(kMlp, at::kFloat, 1);
    DataParallelOptions options;
    options.kept.push_back(net->second->bias);
    if (group.rank() == 1) options.kept.push_back(net->first->weight);
    expect_throws<UsageError>(
        [&] { DataParallelCore(net.ptr(), group, options); },
        {"rank 1 has kept first.weight"});
    expect_throws<UsageError>(
        [&] {
          options.kept.resize(group.rank() == 1 ? 0 : 1);
          DataParallelCore(net.ptr(), group, options);
        },
        {"rank 1 has nothing more", "kept second.bias on rank 0"});
  });
}

TEST(DataParallel, NamesWeightsThatDrift) {
  run_threads(2, [](const Group& group) {
    Mlp net = make_seeded(kMlp, at::kFloat, 1);
    DataParallel model(net, group);
    model.check_weights();
    if (group.rank() == 1) net->second->bias.data()[3] += 1e-6;
    try {
      model.check_weights();
      ADD_FAILURE() << "no error";
    } catch (const CheckError& error) {
      EXPECT_NE(std::string(error.what()).find("second.bias on rank 1"),
                std::string::npos)
          << error.what();
    }
  });
}

TEST(DataParallel, RefusesModulesWithoutParameters) {
  run_threads(2, [](const Group& group) {
    EXPECT_THROW(
        DataParallelCore(std::make_shared<torch::nn::ReLUImpl>(), group, {}),
        UsageError);
  });
}

TEST(DataParallel, ClipsByTheGlobalNorm) {
  Mlp net = make_seeded(kMlp, at::kDouble, 1);
  const Examples all = examples(0, 12, at::kDouble);
  part_of_loss(net->forward(all.data), all, 1).backward();
  const double before = clip_gradients(*net, 0.5);
  EXPECT_GT(before, 0.5);
  EXPECT_NEAR(clip_gradients(*net, 10), 0.5, 1e-12);
}

TEST(DataParallel, SeedsRanksApart) {
  run_threads(3, [](const Group& group) {
    std::vector<std::int64_t> mine{
        static_cast<std::int64_t>(seed_rank(7, group))};
    std::vector<std::int64_t> all(3);
    comm::all_gather(group, mine, all).wait();
    EXPECT_NE(all[0], all[1]);
    EXPECT_NE(all[1], all[2]);
    EXPECT_EQ(static_cast<std::int64_t>(seed_rank(7, group)), mine[0]);
  });
}

}  // namespace
}  // namespace sheaf::parallel
