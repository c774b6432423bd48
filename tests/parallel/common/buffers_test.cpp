#include "sheaf/parallel/common/buffers.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;
using namespace test;

// Batch normalization, a buffer that forward() changes, and one that nothing
// changes.
struct BufferedImpl : torch::nn::Module {
  BufferedImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(3));
    last = register_module("last", torch::nn::Linear(3, 2));
    largest = register_buffer("largest", torch::zeros({1}));
    table = register_buffer("table", torch::arange(3.0f));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = norm(x) + table;
    if (is_training()) largest.copy_(torch::max(largest, x.abs().max()));
    return last(y);
  }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear last{nullptr};
  at::Tensor largest, table;
};
TORCH_MODULE(Buffered);

at::Tensor rows_of(const Group& group) {
  return torch::arange(12.0f).view({4, 3}) * (group.rank() + 1);
}

template <class Model>
void step(Model& model, const Group& group) {
  model.forward(rows_of(group)).sum().backward();
}

template <class Model>
void expect_own_statistics(const Group& group) {
  Buffered net;
  Model model(net, group);
  model.check_weights();
  for (int i = 0; i < 2; ++i) step(model, group);
  {
    const auto guard = model.no_sync();
    step(model, group);
  }
  EXPECT_NO_THROW(model.check_weights());
  std::vector<double> mean{net->norm->running_mean[0].item<double>()};
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  comm::all_gather(group, mean, all).wait();
  EXPECT_NE(all[0], all[1]) << "the ranks' statistics should differ here";
}

TEST(ModuleBuffers, WhatForwardChangesIsTheRanksOwn) {
  run_threads(2, [](const Group& group) {
    expect_own_statistics<DataParallel<BufferedImpl>>(group);
    expect_own_statistics<DadParallel<BufferedImpl>>(group);
  });
}

template <class Model>
void expect_own_after_a_change(const Group& group) {
  Buffered net;
  Model model(net, group, {.broadcast_buffers = false});
  step(model, group);
  for (at::Tensor& one : net->norm->parameters()) one.set_requires_grad(false);
  net->eval();
  model.forward(rows_of(group));
  EXPECT_NO_THROW(model.check_weights());
}

TEST(ModuleBuffers, TheyStayTheRanksOwnWhenTheModuleChanges) {
  run_threads(2, [](const Group& group) {
    expect_own_after_a_change<DataParallel<BufferedImpl>>(group);
    expect_own_after_a_change<DadParallel<BufferedImpl>>(group);
  });
}

template <class Model>
void expect_compared(const Group& group, bool is_statistic) {
  Buffered net;
  Model model(net, group);
  step(model, group);
  if (is_statistic) model.share_buffers();
  model.check_weights();
  const at::Tensor changed = is_statistic ? net->norm->running_var : net->table;
  const at::NoGradGuard no_grad;
  if (group.rank() == 1) changed[1] += 1;
  expect_throws<CheckError>(
      [&] { model.check_weights(); },
      {is_statistic ? "norm.running_var" : "table", "on rank 1"});
}

// Also if it was changed on one rank only, and outside forward().
TEST(ModuleBuffers, WhatNoForwardChangesMustBeEqual) {
  run_threads(3, [](const Group& group) {
    for (const bool is_statistic : {false, true}) {
      expect_compared<DataParallel<BufferedImpl>>(group, is_statistic);
      expect_compared<DadParallel<BufferedImpl>>(group, is_statistic);
    }
  });
}

TEST(ModuleBuffers, AForwardWithoutTrainingChangesNothing) {
  run_threads(2, [](const Group& group) {
    Buffered net;
    DataParallel model(net, group);
    net->eval();
    model.forward(rows_of(group));
    const at::NoGradGuard no_grad;
    if (group.rank() == 1) net->norm->running_mean[0] += 1;
    EXPECT_THROW(model.check_weights(), CheckError);
  });
}

TEST(ModuleBuffers, SharingMakesThemThoseOfTheFirstRank) {
  run_threads(2, [](const Group& group) {
    Buffered net;
    DataParallel model(net, group);
    step(model, group);
    std::vector<double> first{net->norm->running_mean[2].item<double>(),
                              net->largest.item<double>()};
    comm::broadcast(group, first).wait();
    model.share_buffers();
    EXPECT_EQ(net->norm->running_mean[2].item<double>(), first[0]);
    EXPECT_EQ(net->largest.item<double>(), first[1]);
    EXPECT_EQ(first[1], 11);
  });
}

template <class Model>
void expect_new_buffers_are_shared(const Group& group) {
  Buffered net;
  Model model(net, group);
  step(model, group);
  const auto late =
      net->register_buffer("late", torch::full({2}, group.rank() + 1.0f));
  step(model, group);
  EXPECT_EQ(late[0].item<float>(), 1);
  late.add_(group.rank());
  step(model, group);
  EXPECT_EQ(late[1].item<float>(), 1);
}

TEST(Buffers, ThoseThatAreRegisteredLaterAreRankZerosToo) {
  run_threads(2, expect_new_buffers_are_shared<DataParallel<BufferedImpl>>);
  run_threads(2, expect_new_buffers_are_shared<DadParallel<BufferedImpl>>);
}

TEST(Buffers, ExpandedOnesAreSharedAndSparseOnesAreAnError) {
  run_threads(2, [](const Group& group) {
    Buffered net;
    const at::Tensor wide = net->register_buffer(
        "wide", torch::full({2, 1}, group.rank() + 1.0f).expand({2, 3}));
    DataParallel model(net, group);
    EXPECT_TRUE(wide.equal(torch::ones({2, 3})));
    Buffered other;
    other->register_buffer("edges", torch::eye(3).to_sparse());
    try {
      DataParallel wrapped(other, group);
      ADD_FAILURE() << "no error";
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("edges is a tensor of the layout Sparse"), text.npos)
          << text;
    }
  });
}

// As in a single process, although rank 1's running statistics are overwritten.
TEST(Buffers, AGraphIsGoodAfterAnotherForward) {
  run_threads(2, [](const Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(2, 2),
                              torch::nn::BatchNorm1d(2));
    DataParallelCore model(net.ptr(), group, {});
    const auto forward = [&](double scale) {
      model.before_forward();
      at::Tensor y = net->forward(
          torch::arange(8.0).view({4, 2}).mul(scale * (group.rank() + 1)));
      model.after_forward({&y});
      return y.pow(3).sum();
    };
    const at::Tensor first = forward(1);
    const at::Tensor second = forward(2);
    net->eval();
    {
      const torch::NoGradGuard no_grad;
      forward(3);
    }
    (first + second).backward();
    // Other buffers are still protected by their versions.
    net->train();
    model.share_buffers();
    model.check_weights();
  });
}

}  // namespace
}  // namespace sheaf::parallel
