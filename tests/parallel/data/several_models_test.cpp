#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/parallel/common/chain.hpp"

// Models that share a loop or parameters.
namespace sheaf::parallel {
namespace {

using namespace test;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

void expect_names(const std::string& error,
                  const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(error.find(part), error.npos) << part << "\n" << error;
}

TEST(SeveralModels, OptionsAreTheSameOnAllRanks) {
  run_threads(2, [](const Group& group) {
    const bool is_second = group.rank() == 1;
    Chain net;
    expect_names(error_of([&] {
                   DataParallel(net, group,
                                {.find_unused_parameters = is_second});
                 }),
                 {"DataParallel", "rank 1 has find_unused_parameters 1",
                  "find_unused_parameters 0 on rank 0"});
    expect_names(
        error_of([&] {
          DadParallel(net, group,
                      {.mode = is_second ? DadMode::kRankDad : DadMode::kDad});
        }),
        {"DadParallel", "rank 1 has mode rank-dad", "mode dad on rank 0"});
    expect_names(error_of([&] {
                   DadParallel(net, group,
                               {.wire = is_second ? at::kBFloat16 : at::kHalf});
                 }),
                 {"wire BFloat16", "wire Half"});
  });
}

TEST(SeveralModels, JoinTogether) {
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
TEST(SeveralModels, JoinTellsAllRanksOfParametersWithoutGradients) {
  for (const bool is_joint : {false, true})
    run_threads(3, [=](const Group& group) {
      Chain first, second;
      DataParallel a(first, group), b(second, group);
      auto join = join_models({&a, &b});
      const at::Tensor x = torch::ones({1, 3});
      const auto expect_error = [&](const auto& action) {
        expect_names(error_of(action), {"b.weight", "find_unused_parameters"});
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
TEST(SeveralModels, JoinAddsPassesUp) {
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

TEST(SeveralModels, JoinRefusesNoSyncOnTopOfAverages) {
  run_threads(2, [](const Group& group) {
    Chain net;
    DataParallel model(net, group);
    auto join = model.join();
    const at::Tensor x = torch::ones({1, 3});
    if (group.rank() == 0)
      return expect_names(error_of([&] { join.finish(); }), {"no_sync()"});
    model.forward(x).sum().backward();
    expect_names(error_of([&] { auto guard = model.no_sync(); }),
                 {"no_sync() within join()", "reset gradients"});
    join.finish();
  });
}

// As for the loss of a GAN's generator.
TEST(SeveralModels, JoinWithOneLossThroughBoth) {
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

TEST(SeveralModels, OneJoinAtATime) {
  run_threads(2, [](const Group& group) {
    Chain first, second;
    DataParallel a(first, group), b(second, group);
    {
      auto join = a.join();
      expect_names(
          error_of([&] { auto other = b.join(); }),
          {"join() of another model is already under way", "join_models"});
      expect_names(error_of([&] { auto other = a.join(); }),
                   {"join() is already under way"});
      join.finish();
    }
    b.join().finish();
  });
}

TEST(SeveralModels, WithinJoinRanksAreAtTheSameModel) {
  run_threads(2, [](const Group& group) {
    Chain first, second;
    DataParallel a(first, group), b(second, group);
    auto join = join_models({&a, &b});
    const at::Tensor x = torch::ones({1, 3});
    const at::Tensor of_a = a.forward(x).sum(), of_b = b.forward(x).sum();
    expect_names(
        error_of([&] { (group.rank() == 0 ? of_a : of_b).backward(); }),
        {"rank 1 is in backward() of model number 1",
         "backward() of model number 0"});
    join.finish();  // already ended on all ranks
  });
}

TEST(SeveralModels, OfOneJoinHaveTheSameGroup) {
  run_threads(2, [](const Group& group) {
    Chain first, second;
    DataParallel a(first, group), b(second, group.split(group.rank()));
    expect_names(error_of([&] {
                   auto join = join_models({&a, &b});
                 }),
                 {"different groups"});
  });
}

TEST(SeveralModels, DoNotShareTrainedParameters) {
  run_threads(2, [](const Group& group) {
    torch::nn::Linear body(2, 2);
    torch::nn::Sequential first(body, torch::nn::Linear(2, 1));
    torch::nn::Sequential second(torch::nn::Linear(2, 2), body);
    const auto expect_error = [](auto& model, const std::string& name) {
      for (int time = 0; time < 2; ++time)
        expect_names(error_of([&] { model.before_forward(); }),
                     {"parameter " + name + " is trained by another"});
    };
    DataParallelCore a(first.ptr(), group, {});
    a.before_forward();
    {
      DataParallelCore b(second.ptr(), group, {});
      expect_error(b, "1.weight");
      expect_error(a, "0.weight");
      DadParallelCore c(second.ptr(), group, {});
      EXPECT_THROW(c.before_forward(std::nullopt), UsageError);
    }
    a.before_forward();
    body->weight.set_requires_grad(false);
    body->bias.set_requires_grad(false);
    a.before_forward();
    DataParallelCore b(second.ptr(), group, {});
    b.before_forward();
    a.before_forward();
    body->weight.set_requires_grad(true);
    // b has not detected the change yet.
    const at::Tensor output = first->forward(torch::ones({1, 2}));
    a.before_forward();
    expect_error(b, "1.weight");
    expect_error(a, "0.weight");
    // Also if forward() was called before the other wrapper was created.
    expect_names(error_of([&] { output.sum().backward(); }),
                 {"is trained by another"});
  });
}

// The new wrapper is created before the old one is destroyed.
TEST(SeveralModels, AWrapperMayReplaceAnother) {
  run_threads(2, [](const Group& group) {
    Chain net;
    const at::Tensor x = torch::full({1, 3}, group.rank() + 1.0);
    auto model = std::make_unique<DataParallel<ChainImpl>>(net.ptr(), group);
    for (int time = 0; time < 2; ++time) {
      forget_gradients(*net);
      model->forward(x).sum().backward();
      EXPECT_NEAR(net->a->weight.grad()[0][0].item<double>(), 1.5, 1e-6);
      model = std::make_unique<DataParallel<ChainImpl>>(net.ptr(), group);
    }
  });
}

}  // namespace
}  // namespace sheaf::parallel
