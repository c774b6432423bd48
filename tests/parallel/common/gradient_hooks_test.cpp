#include "sheaf/parallel/common/gradient_hooks.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <stdexcept>

namespace sheaf::parallel {
namespace {

class GradientHooksTest : public testing::Test {
 protected:
  GradientHooksTest() {
    hooks.emplace(std::vector{a, b}, [this](const NewGradient& gradient) {
      seen.push_back(gradient);
      if (on_gradient) on_gradient();
    });
  }
  std::vector<std::size_t> seen_parameters() const {
    std::vector<std::size_t> list;
    for (const NewGradient& one : seen) list.push_back(one.parameter);
    return list;
  }

  using Indices = std::vector<std::size_t>;
  const at::Tensor a = torch::ones({3}).set_requires_grad(true);
  const at::Tensor b = torch::ones({3}).set_requires_grad(true);
  std::vector<NewGradient> seen;
  std::function<void()> on_gradient;
  std::optional<GradientHooks> hooks;
};

TEST_F(GradientHooksTest, SeeTheGradientAfterItWasAdded) {
  std::vector<float> values;
  on_gradient = [&] { values.push_back(b.grad()[0].item<float>()); };
  (b * 2).sum().backward();
  (b * 3).sum().backward();
  EXPECT_EQ(values, (std::vector<float>{2, 5}));
  EXPECT_EQ(seen_parameters(), (Indices{1, 1}));
}

TEST_F(GradientHooksTest, EndWithTheObject) {
  hooks.reset();
  (a * b).sum().backward();
  EXPECT_TRUE(seen.empty());
  EXPECT_TRUE(a.grad().defined());
}

TEST_F(GradientHooksTest, DoNotSeeParametersThatWereFrozenAfterForward) {
  const at::Tensor loss = (a * 2 + b).sum();
  a.set_requires_grad(false);
  loss.backward();
  EXPECT_EQ(seen_parameters(), Indices{1});
}

// Gradients of given inputs are not added to the parameters.
TEST_F(GradientHooksTest, DoNotSeeGradientsOfGivenInputs) {
  torch::autograd::grad({(a * b).sum()}, {a, b});
  EXPECT_TRUE(seen.empty());
}

// A function without a gradient.
struct NoGradient : torch::autograd::Function<NoGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/,
                            const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* /*context*/,
      torch::autograd::variable_list /*gradients*/) {
    return {at::Tensor()};
  }
};

TEST_F(GradientHooksTest, DoNotSeeUndefinedGradients) {
  (NoGradient::apply(a) + b).sum().backward();
  EXPECT_EQ(seen_parameters(), Indices{1});
  EXPECT_FALSE(a.grad().defined());
}

TEST_F(GradientHooksTest, ANewGradientOwnsItsMemory) {
  (a * 2).sum().backward();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].owns_memory);
  EXPECT_FALSE(seen[0].is_in_use);
  EXPECT_FALSE(seen[0].is_shared_by_backward());
}

// The gradient is a view of one that a hook keeps.
TEST_F(GradientHooksTest, BackwardMayShareMemory) {
  at::Tensor kept;
  const at::Tensor hidden = a.unsqueeze(0);
  hidden.register_hook([&](const at::Tensor& gradient) { kept = gradient; });
  (hidden * 2).sum().backward();
  ASSERT_EQ(seen.size(), 1u);
  ASSERT_TRUE(a.grad().storage().is_alias_of(kept.storage()));
  EXPECT_FALSE(seen[0].owns_memory);
  EXPECT_FALSE(seen[0].is_in_use);
  EXPECT_TRUE(seen[0].is_shared_by_backward());
}

TEST_F(GradientHooksTest, MemoryOfTheUserIsInUse) {
  const at::Tensor memory = torch::zeros({6});
  a.mutable_grad() = memory.narrow(0, 2, 3);
  (a * 2).sum().backward();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_FALSE(seen[0].owns_memory);
  EXPECT_TRUE(seen[0].is_in_use);
  EXPECT_FALSE(seen[0].is_shared_by_backward());
  EXPECT_EQ(memory.sum().item<float>(), 6);
}

TEST(GradientHooks, MemoryIsOwnedByItsOnlyUser) {
  EXPECT_TRUE(owns_memory({}));
  const at::Tensor alone = torch::ones({4});
  EXPECT_TRUE(owns_memory(alone));
  {
    const at::Tensor other = alone;
    EXPECT_FALSE(owns_memory(alone)) << "a second reference";
  }
  {
    const at::Tensor view = alone.narrow(0, 0, 2);
    EXPECT_FALSE(owns_memory(alone)) << "a view";
    EXPECT_FALSE(owns_memory(view)) << "its base";
  }
  {
    const at::Tensor detached = alone.detach();
    EXPECT_FALSE(owns_memory(alone)) << "the same memory";
  }
  EXPECT_TRUE(owns_memory(alone));
  const at::Tensor view = torch::ones({4}).narrow(0, 0, 2);
  EXPECT_TRUE(owns_memory(view)) << "nobody else has its base";
}

// The memory belongs to somebody else.
TEST(GradientHooks, MemoryOfTheUserIsNotOwned) {
  std::vector<float> memory(4);
  EXPECT_FALSE(owns_memory(torch::from_blob(memory.data(), {4})));
}

TEST(GradientHooks, SparseTensorsOwnTheirMemory) {
  const at::Tensor sparse = torch::sparse_coo_tensor(
      torch::tensor({{1}}, at::kLong), torch::ones({1, 2}), {4, 2});
  const at::Tensor other = sparse;
  EXPECT_TRUE(owns_memory(sparse));
}

TEST_F(GradientHooksTest, TheEndOfBackwardComesAfterAllGradients) {
  int ends = 0;
  on_gradient = [&] {
    at_end_of_backward([&] {
      ++ends;
      EXPECT_EQ(seen.size(), 2u);
    });
  };
  (a * b).sum().backward();
  EXPECT_EQ(ends, 2);
}

TEST_F(GradientHooksTest, BackwardThrowsWhatItsEndThrows) {
  on_gradient = [] {
    at_end_of_backward([] { throw std::runtime_error("as asked"); });
  };
  EXPECT_THROW((a * 2).sum().backward(), std::runtime_error);
}

TEST_F(GradientHooksTest, ANestedBackwardHasAnotherIdentifier) {
  EXPECT_EQ(current_backward(), nullptr);
  std::vector<BackwardId> ids;
  on_gradient = [&] {
    ids.push_back(current_backward());
    if (ids.size() > 1) return;
    const at::AutoGradMode on(true);
    (b * 2).sum().backward();
    ids.push_back(current_backward());
  };
  (a * 2).sum().backward();
  EXPECT_EQ(seen_parameters(), (Indices{0, 1}));
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_NE(ids[0], nullptr);
  EXPECT_NE(ids[1], nullptr);
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_EQ(ids[2], ids[0]);
  EXPECT_EQ(current_backward(), nullptr);
}

TEST_F(GradientHooksTest, ABackwardMayBeForSomeInputsOnly) {
  EXPECT_FALSE(is_for_some_inputs_only());
  std::vector<bool> answers;
  const at::Tensor hidden = a * 2;
  hidden.register_hook(
      [&](const at::Tensor&) { answers.push_back(is_for_some_inputs_only()); });
  torch::autograd::grad({hidden.sum()}, {a}, {}, /*retain_graph=*/true);
  hidden.sum().backward();
  EXPECT_EQ(answers, (std::vector<bool>{true, false}));
}

}  // namespace
}  // namespace sheaf::parallel
