#include "sheaf/parallel/common/wrapped_parameters.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/host/fingerprint.hpp"
#include "tests/parallel/common/chain.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

// A chain with a layer that has buffers only.
class WrappedParametersTest : public testing::Test {
 protected:
  static torch::nn::BatchNorm1d norm() {
    return torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(2).affine(false));
  }
  // The change of the module since it was wrapped.
  std::string change() const {
    return wrapped.find_change(*net).value_or("none");
  }
  static std::shared_ptr<ChainImpl> make() {
    auto made = std::make_shared<ChainImpl>();
    made->register_module("norm", norm());
    return made;
  }

  const std::shared_ptr<ChainImpl> net = make();
  const WrappedParameters wrapped{*net};
};

TEST_F(WrappedParametersTest, ValuesMayChange) {
  EXPECT_EQ(change(), "none");
  net->forward(torch::ones({2, 3})).sum().backward();
  torch::optim::SGD(net->parameters(), 0.1).step();
  net->named_buffers()["norm.running_mean"].add_(1);
  EXPECT_EQ(change(), "none");
}

TEST_F(WrappedParametersTest, FreezingIsAChangeUntilItIsReverted) {
  net->a->bias.set_requires_grad(false);
  EXPECT_EQ(change(), "parameter a.bias");
  const WrappedParameters frozen(*net);
  EXPECT_FALSE(frozen.find_change(*net));
  net->a->bias.set_requires_grad(true);
  EXPECT_EQ(change(), "none");
  EXPECT_EQ(frozen.find_change(*net), "parameter a.bias");
}

// Hooks of the old type are lost, also if the type returns.
TEST_F(WrappedParametersTest, TypesAndLayoutsAreChanges) {
  net->b->to(at::kDouble);
  EXPECT_EQ(change(), "parameter b.weight");
  net->b->to(at::kFloat);
  EXPECT_EQ(change(), "parameter b.weight");
  const WrappedParameters again(*net);
  at::Tensor& bias = net->b->bias;
  bias.set_data(torch::ones({4}).slice(0, 0, 4, 2));
  EXPECT_EQ(again.find_change(*net), "parameter b.bias");
  bias.set_data(torch::ones({3}));
  EXPECT_EQ(again.find_change(*net), "parameter b.bias");
}

TEST_F(WrappedParametersTest, OtherParametersAreChanges) {
  net->replace_module("b", torch::nn::Linear(4, 2));
  EXPECT_EQ(change(), "parameter b.weight");
  net->replace_module("b", net->b);
  EXPECT_EQ(change(), "none");
  net->unregister_module("b");
  EXPECT_EQ(change(), "parameter b.weight");
  net->register_module("c", net->b);
  EXPECT_EQ(change(), "parameter c.weight") << "another name";
}

TEST_F(WrappedParametersTest, AnAddedParameterIsAChange) {
  net->register_module("more", torch::nn::Linear(1, 1));
  EXPECT_EQ(change(), "parameter more.weight");
}

TEST_F(WrappedParametersTest, OtherBuffersAreChanges) {
  net->register_buffer("extra", torch::Tensor());
  EXPECT_EQ(change(), "none") << "undefined buffers do not count";
  net->replace_module("norm", norm());
  EXPECT_EQ(change(), "buffer norm.running_mean");
  net->unregister_module("norm");
  EXPECT_EQ(change(), "buffer norm.running_mean");
}

TEST_F(WrappedParametersTest, AnAddedBufferIsAChange) {
  net->register_module("second", norm());
  EXPECT_EQ(change(), "buffer second.running_mean");
}

TEST_F(WrappedParametersTest, RanksMustChangeAlike) {
  run_threads(2, [](const Group& group) {
    agree_on_change(group, "parameter p");
    const std::string mine = group.rank() == 0 ? "parameter p" : "buffer q";
    expect_throws<UsageError>([&] { agree_on_change(group, mine); },
                              {"parameter p has changed since it was wrapped",
                               "buffer q has changed since it was wrapped"});
  });
}

// Another rank's message has only the hash of its name.
TEST_F(WrappedParametersTest, NamesAreKnownBeforeAnyChange) {
  comm::Fingerprint call{.operation = comm::Operation::kAllReduce};
  const std::string text =
      "parameter only.here.weight has changed since it was wrapped";
  call.name_hash = comm::hash_name(text);
  EXPECT_EQ(comm::describe(call).find(text), std::string::npos);
  name_changes({{"only.here.weight", torch::ones({1})}});
  EXPECT_NE(comm::describe(call).find(text), std::string::npos)
      << comm::describe(call);
}

// What users do to a module after it was wrapped, under each strategy.

TEST(ChangedModule, TypesMayChangeAfterWrapping) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    for (const auto type : {at::kDouble, at::kFloat, at::kDouble}) {
      net->to(type);
      for (int step = 0; step < 3; ++step) {
        forget_gradients(*net);
        model.forward(input_for(group, type)).square().mean().backward();
        expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
      }
    }
    // To f32 and back between two steps.
    net->to(at::kFloat);
    net->to(at::kDouble);
    forget_gradients(*net);
    model.forward(input_for(group, at::kDouble)).square().mean().backward();
    expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
  });
}

TEST(ChangedModule, LayersMayBeFrozenAndUnfrozen) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    for (const bool is_frozen : {true, false, true, false}) {
      for (at::Tensor& one : net->a->parameters())
        one.set_requires_grad(!is_frozen);
      for (int step = 0; step < 2; ++step) {
        forget_gradients(*net);
        model.forward(input_for(group, type)).square().mean().backward();
        auto want = gradients_alone(net, group.size(), plain_loss);
        if (is_frozen) want[0] = want[1] = at::Tensor();
        expect_gradients(net, want);
      }
    }
  });
}

// For example a discriminator while the generator is trained.
TEST(ChangedModule, TheWholeModuleMayBeFrozenForAWhile) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const auto freeze = [&](bool is_on) {
      for (at::Tensor& one : net->parameters()) one.set_requires_grad(!is_on);
    };
    for (int round = 0; round < 2; ++round) {
      freeze(true);
      forget_gradients(*net);
      const at::Tensor x = input_for(group, type).set_requires_grad(true);
      model.forward(x).square().mean().backward();
      EXPECT_TRUE(x.grad().defined());
      EXPECT_NE(x.grad().abs().sum().item<double>(), 0);
      for (const at::Tensor& one : net->parameters())
        EXPECT_FALSE(one.grad().defined());
      freeze(false);
      for (int step = 0; step < 2; ++step) {
        forget_gradients(*net);
        model.forward(input_for(group, type)).square().mean().backward();
        expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
      }
    }
  });
}

TEST(ChangedModule, ChangesWhileRowsWaitAreAnErrorOrKeepThem) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    model.forward(x).square().mean().backward();
    forget_gradients(*net);
    {
      const auto guard = model.no_sync();
      model.forward(x).square().mean().backward();
    }
    net->a->bias.set_requires_grad(false);
    try {
      model.forward(x).square().mean().backward();
      auto want = gradients_alone(net, group.size(),
                                  [](ChainImpl& alone, const at::Tensor& mine) {
                                    return 2 * plain_loss(alone, mine);
                                  });
      EXPECT_TRUE(torch::allclose(net->a->weight.grad(), want[0]));
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("no_sync() have not been exchanged"), text.npos)
          << text;
    }
  });
}

TEST(ChangedModule, ALayerMayBeFrozenBeforeItsBackward) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    model.forward(x).square().mean().backward();
    forget_gradients(*net);
    const at::Tensor loss = model.forward(x).square().mean();
    net->a->bias.set_requires_grad(false);
    try {
      loss.backward();
      auto want = gradients_alone(net, group.size(), plain_loss);
      EXPECT_TRUE(torch::allclose(net->a->weight.grad(), want[0]));
      EXPECT_TRUE(torch::allclose(net->b->weight.grad(), want[2]));
    } catch (const UsageError& error) {  // a parameter without a gradient
      const std::string text = error.what();
      EXPECT_NE(text.find("a.bias"), text.npos) << text;
    }
  });
}

TEST(ChangedModule, AModuleWithNothingToTrainIsAnErrorOnAllRanks) {
  run_threads(3, [](const Group& group) {
    for (const bool everywhere : {true, false}) {
      Chain net;
      if (everywhere || group.rank() == 1)
        for (at::Tensor& one : net->parameters()) one.set_requires_grad(false);
      EXPECT_THROW(DataParallel(net, group), UsageError);
      EXPECT_THROW(DadParallel(net, group), UsageError);
    }
  });
}

TEST(ChangedModule, AFrozenLayerThatIsUnfrozenLater) {
  run_threads(2, [](const Group& group) {
    Chain net;
    net->a->weight.set_requires_grad(false);
    DataParallel model(net, group);
    model.forward(input_for(group, at::kFloat)).square().mean().backward();
    net->a->weight.set_requires_grad(true);
    forget_gradients(*net);
    model.forward(input_for(group, at::kFloat)).square().mean().backward();
    expect_gradients(net, gradients_alone(net, 2, plain_loss));
  });
}

TEST(ChangedModule, ParametersMayBeReplaced) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    model.forward(input_for(group, type)).square().mean().backward();
    torch::nn::Linear other(4, 2);
    other->to(type);
    net->b = net->replace_module("b", other);
    forget_gradients(*net);
    model.forward(input_for(group, type)).square().mean().backward();
    model.check_weights();  // the new parameters are those of rank 0
    expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
  });
}

TEST(ChangedModule, AChangeOnOneRankAloneIsAnErrorOnAll) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    model.forward(x).square().mean().backward();
    if (group.rank() == 1) net->b->bias.set_requires_grad(false);
    forget_gradients(*net);
    try {
      model.forward(x).square().mean().backward();
      ADD_FAILURE() << "no error on rank " << group.rank();
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("parameter b.bias has changed"), text.npos) << text;
      EXPECT_NE(text.find("rank 1"), text.npos) << text;
    }
  });
}

TEST(ChangedModule, AParameterAddedOnOneRankAloneIsNamed) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    model.forward(x).square().mean().backward();
    if (group.rank() == 1) net->register_parameter("extra", at::ones({2}));
    forget_gradients(*net);
    expect_throws<UsageError>(
        [&] { model.forward(x).square().mean().backward(); },
        {"parameter extra has changed", "rank 1"});
  });
}

// A rank that reverts its change continues with rank 0's layer.
TEST(ChangedModule, ARefusedChangeLeavesNothingBehind) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    model.forward(x).square().mean().backward();
    torch::nn::Linear other(4, 2);
    other->to(group.rank() == 0 ? type : at::kHalf);
    {
      const torch::NoGradGuard no_grad;
      other->weight.fill_(group.rank() + 1);
    }
    net->b = net->replace_module("b", other);
    EXPECT_THROW(model.forward(x), UsageError);
    other->to(type);
    forget_gradients(*net);
    model.forward(x).square().mean().backward();
    model.check_weights();
    EXPECT_EQ(net->b->weight[0][0].template item<double>(), 1);
    expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
  });
}

TEST(ChangedModule, ChangesThatDifferBetweenRanksAreAnErrorOnAll) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    model.forward(x).square().mean().backward();
    auto& layer = group.rank() == 0 ? net->a : net->b;
    layer->weight.set_requires_grad(false);
    EXPECT_THROW(model.forward(x).square().mean().backward(), UsageError);
  });
}

}  // namespace
}  // namespace sheaf::parallel
