#include <gtest/gtest.h>
#include <torch/version.h>

#include <stdexcept>

#include "sheaf/base/error.hpp"
#include "tests/parallel/common/chain.hpp"

// Gradients of no_sync() that are kept while the program resets some of them,
// reuses graphs, or continues after an exception: each rank behaves like a
// single process.
namespace sheaf::parallel {
namespace {

using namespace test;

TEST(WaitingRows, AreForgottenByAResetWithinNoSync) {
  expect_as_alone([](auto& model, Chain& net, const auto& input) {
    first_step(model, net, input);
    {
      [[maybe_unused]] const auto guard = model.no_sync();
      const at::Tensor loss = loss_of(model, input, 1);
      loss.backward({}, /*retain_graph=*/true);
      forget_gradients(*net);
      loss.backward();
    }
    loss_of(model, input, 2).backward();
  });
}

TEST(WaitingRows, ComeBackWithAGraphThatIsUsedAgain) {
  expect_as_alone([](auto& model, Chain& net, const auto& input) {
    first_step(model, net, input);
    at::Tensor first, second;
    {
      [[maybe_unused]] const auto guard = model.no_sync();
      first = loss_of(model, input, 1);
      first.backward({}, /*retain_graph=*/true);
      second = loss_of(model, input, 3);
    }
    forget_gradients(*net);
    (first + second).backward();
  });
}

TEST(WaitingRows, SurviveAPassThatThrows) {
  expect_as_alone([](auto& model, Chain& net, const auto& input) {
    first_step(model, net, input);
    {
      [[maybe_unused]] const auto guard = model.no_sync();
      loss_of(model, input, 1).backward();
    }
    const at::Tensor output = model.forward(input(2));
    output.register_hook([](const at::Tensor& g) -> at::Tensor {
      throw std::runtime_error("a user's error");
      return g;
    });
    EXPECT_THROW(output.square().mean().backward(), std::runtime_error);
    loss_of(model, input, 3).backward();
  });
}

TEST(WaitingRows, AreExchangedWithAPenaltyAlone) {
  expect_as_alone([](auto& model, Chain& net, const auto& input) {
    first_step(model, net, input);
    {
      [[maybe_unused]] const auto guard = model.no_sync();
      loss_of(model, input, 1).backward();
    }
    at::Tensor sum;
    for (const at::Tensor& one : net->parameters())
      sum = sum.defined() ? sum + one.square().sum() : one.square().sum();
    sum.backward();
  });
}

TEST(WaitingRows, AGradientThatIsReplacedIsAnError) {
  run_threads(2, [](const Group& group) {
    Chain net;
    net->to(torch::kDouble);
    DadParallel model(net, group, {.link = LinkModel{.ranks = 2}});
    const at::Tensor x = input_for(group, at::kDouble);
    model.forward(x).sum().backward();
    {
      const auto guard = model.no_sync();
      model.forward(x).sum().backward();
    }
    at::Tensor& gradient = net->a->weight.mutable_grad();
    gradient = gradient.clone();
    try {
      model.forward(x).sum().backward();
      ADD_FAILURE() << "no error";
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("a.weight was replaced"), text.npos) << text;
    }
  });
}

// DadParallel cannot distinguish the two in libtorch 1, where its hooks on the
// nodes of the graph run before those of the user on tensors.
TEST(WaitingRows, BackwardWithinAHookOfTheSameGraphIsRightOrAnError) {
  run_threads(2, [](const Group& group) {
    Chain net;
    net->to(torch::kDouble);
    DadParallel model(net, group, {.link = LinkModel{.ranks = 2}});
    const at::Tensor output = model.forward(input_for(group, at::kDouble));
    at::Tensor other = output.sum();
    bool is_within = false;
    output.register_hook([&](const at::Tensor& g) -> at::Tensor {
      if (std::exchange(is_within, true)) return g;
      const at::AutoGradMode on(true);
      other.backward({}, /*retain_graph=*/true);
      return g;
    });
    const at::Tensor loss = output.square().mean();
    if (TORCH_VERSION_MAJOR < 2) {
      EXPECT_THROW(loss.backward(), UsageError);
      return;
    }
    loss.backward();
    const auto sum_of_both = [](ChainImpl& one, const at::Tensor& x) {
      const at::Tensor y = one.forward(x);
      return y.square().mean() + y.sum();
    };
    expect_gradients(net, gradients_alone(net, 2, sum_of_both));
  });
}

// The hook would be bypassed if the weight's product were exchanged.
TEST(WaitingRows, HooksOnViewsOfWeightsAreCalled) {
  run_threads(2, [](const Group& group) {
    struct Net : torch::nn::Module {
      Net() : weight(register_parameter("w", at::ones({2, 3}, at::kDouble))) {}
      at::Tensor forward(const at::Tensor& x) {
        const at::Tensor view = weight.t();
        if (view.requires_grad())
          view.register_hook([](const at::Tensor& g) { return g * 0.5; });
        return x.mm(view);
      }
      at::Tensor weight;
    };
    const auto net = std::make_shared<Net>();
    DadParallel<Net> model(net, group, {.link = LinkModel{.ranks = 2}});
    model.forward(at::full({1, 3}, group.rank() + 1.0, at::kDouble))
        .sum()
        .backward();
    EXPECT_TRUE(net->weight.grad().equal(at::full_like(net->weight, 0.75)));
  });
}

}  // namespace
}  // namespace sheaf::parallel
