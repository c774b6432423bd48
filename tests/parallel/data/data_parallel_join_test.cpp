// join() of one model, and of several that share a loop.
#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "tests/parallel/common/chain.hpp"
#include "tests/parallel/data/many_parameters.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

TEST(DataParallelJoin, TakesUnequalNumbersOfSteps) {
  for (const bool by_active : {false, true})
    run_threads(3, [=](const Group& group) {
      Many net(2);
      DataParallel model(net, group);
      torch::optim::SGD optimizer(net->parameters(), 1.0);
      {
        auto join = model.join({.divide_by_active_ranks = by_active});
        for (int step = 0; step <= group.rank(); ++step) {
          forget_gradients(*net);
          model.forward(std::vector{0, 1}, 3.0).backward();
          optimizer.step();
        }
        join.finish();
      }
      // 3 ranks, then 2, then 1 of them contribute 3 each.
      const double sum = by_active ? 9 : 3 + 2 + 1;
      expect_value(net->weights[0].detach(), 1 - sum);
      expect_value(net->weights[1].detach(), 2 - sum);
      model.forward(std::vector{0, 1}, 1.0).backward();  // all ranks again
    });
}

// The error ends join(), also on ranks that have finished; they may join()
// again.
TEST(DataParallelJoin, ReportsParametersWithoutGradientsToAllRanks) {
  run_threads(3, [](const Group& group) {
    Many net(2);
    DataParallel model(net, group);
    for (int time = 0; time < 2; ++time) {
      auto join = model.join();
      const auto expect_error = [&](const auto& action) {
        expect_throws<UsageError>(action, {"w1"});
      };
      if (group.rank() != 1)
        expect_error([&] { model.forward(std::vector{0}, 1.0).backward(); });
      if (group.rank() == 1)
        expect_error([&] { join.finish(); });
      else
        join.finish();
    }
  });
}

TEST(DataParallelJoin, RefusesLayersThatNormalizeOverAllRanks) {
  run_threads(2, [](const Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(2, 3),
                              torch::nn::BatchNorm1d(3));
    use_sync_batch_norm(*net, group);
    DataParallelCore model(net.ptr(), group, {.broadcast_buffers = false});
    expect_throws<UsageError>([&] { auto join = model.join(); },
                              {"the layer '1' of", "use_local_batch_norm"});
    use_local_batch_norm(*net);
    model.join().finish();
  });
}

TEST(DataParallelJoin, TakesSeveralModels) {
  run_threads(3, [](const Group& group) {
    Chain first, second;
    DataParallel a(first, group), b(second, group);
    const auto weight = [](const Chain& net) {
      return net->b->bias[0].item<double>();
    };
    torch::optim::SGD optimizer_a(first->parameters(), 1.0);
    torch::optim::SGD optimizer_b(second->parameters(), 1.0);
    auto join = join_models({&a, &b}, {.divide_by_active_ranks = true});
    for (int step = 0; step < 2 + group.rank(); ++step) {
      forget_gradients(*first);
      forget_gradients(*second);
      const at::Tensor x = torch::ones({1, 3});
      a.forward(x).sum().backward();
      b.forward(x).sum().mul(2).backward();
      optimizer_a.step();
      if (step % 2 == 0) b.forward(x).sum().backward();
      optimizer_b.step();
    }
    join.finish();
    // One for each of four steps; two for each, and one for every other.
    EXPECT_EQ(weight(first), 0.5 - 4);
    EXPECT_EQ(weight(second), 0.5 - 2 * 4 - 2);
    a.check_weights();
    b.check_weights();
    a.forward(torch::ones({1, 3})).sum().backward();  // all ranks again
  });
}

// All ranks get the error, also while passes of both models are open.
TEST(DataParallelJoin, ReportsParametersWithoutGradientsOfSeveralModels) {
  for (const bool is_joint : {false, true})
    run_threads(3, [=](const Group& group) {
      Chain first, second;
      DataParallel a(first, group), b(second, group);
      auto join = join_models({&a, &b});
      const at::Tensor x = torch::ones({1, 3});
      const auto expect_error = [&](const auto& action) {
        expect_throws<UsageError>(action,
                                  {"b.weight", "find_unused_parameters"});
      };
      if (group.rank() == 1) return expect_error([&] { join.finish(); });
      const at::Tensor other = b.forward(x).sum();
      a.forward(x);
      const at::Tensor loss = first->kept.sum();
      expect_error([&] { (is_joint ? loss + other : loss).backward(); });
      join.finish();
    });
}

// Ranks that have finished have no share in the first average.
TEST(DataParallelJoin, AddsPassesUp) {
  for (const bool zeroes : {false, true})
    run_threads(2, [=](const Group& group) {
      Chain net;
      DataParallel model(net, group);
      auto join = model.join();
      for (int step = 0; step < 1 + group.rank(); ++step) {
        for (at::Tensor& one : net->parameters())
          if (zeroes && one.grad().defined())
            one.mutable_grad().zero_();
          else
            one.mutable_grad().reset();
        for (int pass = 1; pass <= 3; ++pass) {
          model.forward(torch::ones({1, 3})).sum().backward();
          EXPECT_EQ(net->b->bias.grad()[0].item<double>(),
                    step == 0 ? pass : pass * 0.5);
        }
      }
      join.finish();
    });
}

TEST(DataParallelJoin, RefusesNoSyncOnTopOfAverages) {
  run_threads(2, [](const Group& group) {
    Chain net;
    DataParallel model(net, group);
    auto join = model.join();
    const at::Tensor x = torch::ones({1, 3});
    if (group.rank() == 0)
      return expect_throws<UsageError>([&] { join.finish(); }, {"no_sync()"});
    model.forward(x).sum().backward();
    expect_throws<UsageError>([&] { auto guard = model.no_sync(); },
                              {"no_sync() within join()", "reset gradients"});
    join.finish();
  });
}

// As for the loss of a GAN's generator.
TEST(DataParallelJoin, OneLossMayUseBothModels) {
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    run_threads(3, [=](const Group& group) {
      Chain first;
      torch::nn::Linear second(2, 1);
      DataParallel a(first, group, {.overlap = overlap});
      DataParallel b(second, group, {.overlap = overlap});
      auto join = join_models({&a, &b});
      for (int step = 0; step < 1 + group.rank(); ++step) {
        forget_gradients(*first);
        forget_gradients(*second);
        b.forward(a.forward(torch::ones({1, 3}))).sum().backward();
        const double part = (3.0 - step) / 3;  // fraction of active ranks
        EXPECT_NEAR(second->bias.grad().item<double>(), part, 1e-6);
        EXPECT_TRUE(torch::allclose(first->b->bias.grad(),
                                    second->weight.detach()[0] * part));
      }
      join.finish();
    });
}

TEST(DataParallelJoin, OneAtATime) {
  run_threads(2, [](const Group& group) {
    Chain first, second;
    DataParallel a(first, group), b(second, group);
    {
      auto join = a.join();
      expect_throws<UsageError>(
          [&] { auto other = b.join(); },
          {"join() of another model is already active", "join_models"});
      expect_throws<UsageError>([&] { auto other = a.join(); },
                                {"join() is already active"});
      join.finish();
    }
    b.join().finish();
  });
}

TEST(DataParallelJoin, RanksAreAtTheSameModel) {
  run_threads(2, [](const Group& group) {
    Chain first, second;
    DataParallel a(first, group), b(second, group);
    auto join = join_models({&a, &b});
    const at::Tensor x = torch::ones({1, 3});
    const at::Tensor of_a = a.forward(x).sum(), of_b = b.forward(x).sum();
    expect_throws<UsageError>(
        [&] { (group.rank() == 0 ? of_a : of_b).backward(); },
        {"rank 1 is in backward() of model number 1",
         "backward() of model number 0"});
    join.finish();  // already ended on all ranks
  });
}

TEST(DataParallelJoin, ModelsHaveTheSameGroup) {
  run_threads(2, [](const Group& group) {
    Chain first, second;
    DataParallel a(first, group), b(second, group.split(group.rank()));
    expect_throws<UsageError>(
        [&] {
          auto join = join_models({&a, &b});
        },
        {"different groups"});
  });
}

// The last step of a rank may be its first: it still gets the weights of the
// rank with the most steps.
TEST(DataParallelJoin, ARankMayHaveNoSteps) {
  run_threads(2, [](const Group& group) {
    Many net(1);
    DataParallel model(net, group);
    torch::optim::SGD optimizer(net->parameters(), 1.0);
    {
      const auto join = model.join();  // the destructor finishes
      for (int step = 0; step < 2 * group.rank(); ++step) {
        forget_gradients(*net);
        model.forward(std::vector{0}, 4.0).backward();
        optimizer.step();
      }
    }
    expect_value(net->weights[0].detach(), 1 - 2 * 2);
    model.check_weights();
  });
}

TEST(DataParallelJoin, MayFinishTwiceAndBeginAgain) {
  run_threads(2, [](const Group& group) {
    Many net(1);
    DataParallel model(net, group);
    for (int time = 0; time < 2; ++time) {
      auto join = model.join();
      join.finish();
      join.finish();
    }
    model.forward(std::vector{0}, 2.0 * group.rank()).backward();
    expect_value(net->gradient(0), 1);
  });
}

TEST(DataParallelJoin, OfOneRankChangesNothing) {
  run_threads(1, [](const Group& group) {
    Many net(1);
    DataParallel model(net, group);
    auto join = model.join({.divide_by_active_ranks = true});
    model.forward(std::vector{0}, 3.0).backward();
    join.finish();
    expect_value(net->gradient(0), 3);
  });
}

TEST(DataParallelJoin, NeedsAModel) {
  expect_throws<UsageError>([] { auto join = join_models({}); },
                            {"join_models() needs at least one model"});
}

TEST(DataParallelJoin, RefusesKeptParameters) {
  run_threads(2, [](const Group& group) {
    Many net(2);
    DataParallel model(net, group, {.kept = {net->weights[1]}});
    expect_throws<UsageError>(
        [&] { auto join = model.join(); },
        {"parameters that are not exchanged", "empty batches"});
  });
}

// Ranks that have finished get the error as well.
TEST(DataParallelJoin, TheModuleMustNotChange) {
  run_threads(2, [](const Group& group) {
    Many net(2);
    DataParallel model(net, group);
    auto join = model.join();
    const auto act = [&] {
      if (group.rank() == 0) return join.finish();
      net->weights[1].set_requires_grad(false);
      model.forward(std::vector{0}, 1.0);
    };
    expect_throws<UsageError>(act, {"the module has changed within join()"});
    if (group.rank() == 1) net->weights[1].set_requires_grad(true);
    join.finish();
    model.forward(std::vector{0, 1}, 1.0).backward();
    expect_value(net->gradient(1), 1);
  });
}

// Buffers are those of the first rank that still has data.
TEST(DataParallelJoin, BuffersAreThoseOfARankWithData) {
  run_threads(3, [](const Group& group) {
    const auto net = std::make_shared<CountedImpl>();
    DataParallel model(net, group);
    auto join = model.join();
    net->count.fill_(10 + group.rank());
    if (group.rank() > 0) {
      model.forward(torch::ones({1})).sum().backward();
      EXPECT_EQ(net->count.item<float>(), 11);
    }
    join.finish();
    EXPECT_EQ(net->count.item<float>(), 11);
  });
}

}  // namespace
}  // namespace sheaf::parallel
