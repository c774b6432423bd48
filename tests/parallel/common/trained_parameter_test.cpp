#include "sheaf/parallel/common/trained_parameter.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "sheaf/base/error.hpp"
#include "tests/parallel/common/chain.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

class ParameterClaimTest : public testing::Test {
 protected:
  const TrainedParameter a{"a", torch::ones({2})};
  const TrainedParameter b{"b", torch::ones({2})};
  ParameterClaim claim;
};

TEST_F(ParameterClaimTest, AnotherClaimIsAnErrorUntilItEnds) {
  claim.set({b, a});
  claim.check();
  {
    ParameterClaim other;
    other.set({a});
    for (int time = 0; time < 2; ++time) {
      expect_throws<UsageError>([&] { claim.check(); },
                                {"parameter a is trained by another",
                                 "destroy the other wrapper first"});
      EXPECT_THROW(other.check(), UsageError);
    }
  }
  claim.check();
}

TEST_F(ParameterClaimTest, SettingReleasesThePreviousParameters) {
  ParameterClaim other;
  claim.set({a});
  other.set({b});
  claim.check();
  other.check();
  claim.set({a, b});
  EXPECT_THROW(other.check(), UsageError);
  claim.set({a});
  other.check();
  claim.check();
}

TEST_F(ParameterClaimTest, TheSameParametersMayBeClaimedAgain) {
  claim.set({a, b});
  claim.set({a, b});
  claim.check();
  claim.set({});
  claim.check();
  ParameterClaim other;
  other.set({a, b});
  other.check();
}

TEST(ParameterClaim, WrappersDoNotShareTrainedParameters) {
  run_threads(2, [](const Group& group) {
    torch::nn::Linear body(2, 2);
    torch::nn::Sequential first(body, torch::nn::Linear(2, 1));
    torch::nn::Sequential second(torch::nn::Linear(2, 2), body);
    const auto expect_error = [](auto& model, const std::string& name) {
      for (int time = 0; time < 2; ++time)
        expect_throws<UsageError>(
            [&] { model.before_forward(); },
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
    expect_throws<UsageError>([&] { output.sum().backward(); },
                              {"is trained by another"});
  });
}

// The new wrapper is created before the old one is destroyed.
TEST(ParameterClaim, AWrapperMayReplaceAnother) {
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
