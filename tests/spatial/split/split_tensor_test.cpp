// Properties of split tensors, and operations that they do not support.

#include "sheaf/spatial/split/split_tensor.hpp"

#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void on_two_ranks(
    const std::function<void(const std::shared_ptr<Tiles>&)>& action) {
  comm::run_threads(2, [&](const comm::Group& group) {
    action(std::make_shared<Tiles>(group, halo::Grid::parse("2x1")));
  });
}

at::Tensor image() { return random({1, 2, 4, 6}, at::kDouble, 1); }

TEST(SplitTensor, RequiresGradAsItsPartDoes) {
  on_two_ranks([](const std::shared_ptr<Tiles>& tiles) {
    const at::Tensor plain = cut(image(), tiles);
    EXPECT_FALSE(plain.requires_grad());
    EXPECT_TRUE(plain.is_leaf());
    const at::Tensor weight = at::ones({1}, at::kDouble).requires_grad_();
    const at::Tensor made = plain * weight;
    EXPECT_TRUE(made.requires_grad());
    EXPECT_FALSE(made.is_leaf());
    EXPECT_FALSE(made.detach().requires_grad());
    EXPECT_FALSE(made.data().requires_grad());
    EXPECT_TRUE(at::equal(gather(made.data()), image()));
    {
      const at::NoGradGuard no_grad;
      EXPECT_FALSE((plain * weight).requires_grad());
    }
    plain.add_(weight);
    EXPECT_TRUE(plain.requires_grad());
    EXPECT_TRUE(cut(image().requires_grad_(), tiles).relu().requires_grad());
  });
}

TEST(SplitTensor, RefusesWhatNeedsTheWhole) {
  on_two_ranks([](const std::shared_ptr<Tiles>& tiles) {
    const at::Tensor x = cut(image().requires_grad_(), tiles);
    expect_throws<UsageError>([&] { x.strides(); }, {"strides", "1x2x[0|2|4]"});
    expect_throws<UsageError>([&] { x.stride(1); }, {"strides"});
    EXPECT_TRUE(x.is_contiguous());
    expect_throws<UsageError>([&] { x.grad(); },
                              {"grad()", "before it is cut"});
    expect_throws<UsageError>([&] { at::Tensor(x).mutable_grad(); },
                              {"grad()"});
    const at::Tensor leaf = cut(image(), tiles);
    leaf.set_requires_grad(true);
    expect_throws<UsageError>([&] { leaf * 2; }, {"set_requires_grad()"});
    expect_throws<UsageError>([&] { x.backward(at::ones(x.sizes())); },
                              {"backward", "gather"});
    EXPECT_THROW(at::Tensor(x).set_data(image()), c10::Error);
    expect_throws<UsageError>([&] { at::Tensor(x).set_data(x * 2); },
                              {"set_data()"});
    // Hooks of a part would be called with a different tensor.
    const at::Tensor hooked = x * 2;
    hooked.register_hook([](const at::Tensor& g) { return g; });
    expect_throws<UsageError>([&] { hooked.relu(); }, {"aten::relu", "hook"});
    const at::Tensor retained = x * 2;
    retained.retain_grad();
    expect_throws<UsageError>([&] { retained.relu(); }, {"aten::relu", "hook"});
  });
}

struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x) {
    return x * 2;
  }
  static variable_list backward(AutogradContext*, variable_list dy) {
    return {dy[0] * 2};
  }
};
struct Summed : torch::autograd::Function<Summed> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x) {
    return x.sum();
  }
  static variable_list backward(AutogradContext*, variable_list dy) {
    return {dy[0].expand({1, 2, 4, 6})};
  }
};

// The gradients of custom functions would not reach the part.
TEST(SplitTensor, RefusesFunctionsOfUsers) {
  on_two_ranks([](const std::shared_ptr<Tiles>& tiles) {
    const at::Tensor weight = at::ones({1}, at::kDouble).requires_grad_();
    const at::Tensor x = cut(image(), tiles) * weight;
    expect_throws<UsageError>([&] { Doubled::apply(x).sum(); },
                              {"aten::sum", "torch::autograd::Function"});
    expect_throws<UsageError>([&] { Summed::apply(x).backward(); },
                              {"backward", "torch::autograd::Function"});
    EXPECT_FALSE(weight.grad().defined());
  });
}

TEST(SplitTensor, RefusesGradientsOfGradients) {
  on_two_ranks([](const std::shared_ptr<Tiles>& tiles) {
    const at::Tensor weight =
        random({3, 2, 3, 3}, at::kDouble, 2).requires_grad_();
    const at::Tensor whole = image().requires_grad_();
    const auto penalty = [&](const auto& loss_of) {
      const at::Tensor loss =
          loss_of(at::conv2d(cut(whole, tiles), weight, {}, 1, 1).square());
      return torch::autograd::grad({loss}, {whole}, {}, true, true)[0]
          .square()
          .sum();
    };
    expect_throws<UsageError>(
        [&] { penalty([](const at::Tensor& y) { return y.sum(); }); },
        {"create_graph", "2x1"});
    expect_throws<UsageError>(
        [&] { penalty([](const at::Tensor& y) { return gather(y).sum(); }); },
        {"create_graph"});
    EXPECT_FALSE(weight.grad().defined());
  });
}

// Each rank gets the gradient of the whole image, as in a single process.
TEST(SplitTensor, WholeImagesGetTheirWholeGradient) {
  const auto loss_of = [](const at::Tensor& x) {
    return (at::conv2d(x, random({3, 2, 3, 3}, at::kDouble, 2), {}, 1, 1) *
            random({1, 3, 4, 6}, at::kDouble, 3))
        .square()
        .mean();
  };
  const at::Tensor wanted = image().requires_grad_();
  loss_of(wanted).backward();
  for (const char* grid : {"1x1", "2x1", "2x2", "6x1"})
    comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
      const auto tiles =
          std::make_shared<Tiles>(group, halo::Grid::parse(grid));
      const at::Tensor whole = image().requires_grad_();
      loss_of(cut(whole, tiles)).backward();
      EXPECT_LE(distance(whole.grad(), wanted.grad()), 1e-12) << grid;
    });
}

TEST(SplitTensor, LivesOnHosts) {
  EXPECT_NO_THROW(check_on_host("a tensor", at::Device(at::kCPU)));
  expect_throws<UsageError>(
      [] { check_on_host("the parameter w", at::Device(at::kCUDA, 1)); },
      {"the parameter w", "cuda:1", "kCPU"});
  on_two_ranks([](const std::shared_ptr<Tiles>& tiles) {
    expect_throws<UsageError>(
        [&] {
          cut(at::empty({1, 2, 4, 6}, at::kMeta), tiles);
        },
        {"meta"});
    expect_throws<UsageError>(
        [&] {
          from_part(at::empty({1, 2, 2, 6}, at::kMeta), tiles, {1, 2, 4, 6});
        },
        {"meta"});
    expect_throws<UsageError>([&] { cut(image(), tiles).to(at::kMeta); },
                              {"meta"});
  });
}

}  // namespace
}  // namespace sheaf::spatial
