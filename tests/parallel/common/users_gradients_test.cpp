#include <gtest/gtest.h>

#include <stdexcept>

#include "sheaf/base/error.hpp"
#include "tests/parallel/common/chain.hpp"

// Gradients in memory of the user, such as views of one flat buffer that a
// fused optimizer reads: averages are written there, like the gradients of a
// single process.
namespace sheaf::parallel {
namespace {

using namespace test;

// Stores all gradients of a network as views of one buffer.
class Flat {
 public:
  explicit Flat(const torch::nn::Module& net) : parameters_(net.parameters()) {
    std::int64_t size = 0;
    for (const at::Tensor& one : parameters_) size += one.numel();
    buffer = torch::zeros({size}, parameters_[0].scalar_type());
    std::int64_t at = 0;
    for (at::Tensor& one : parameters_) {
      one.mutable_grad() = buffer.narrow(0, at, one.numel()).view(one.sizes());
      at += one.numel();
    }
  }
  void expect_is_used() const {
    for (const at::Tensor& one : parameters_) {
      ASSERT_TRUE(one.grad().defined());
      EXPECT_TRUE(one.grad().storage().is_alias_of(buffer.storage()));
    }
  }

  at::Tensor buffer;

 private:
  std::vector<at::Tensor> parameters_;
};

TEST(UsersGradients, TakeTheAverage) {
  expect_as_alone([](auto& model, Chain& net, const auto& input) {
    Flat flat(*net);
    for (int step = 0; step < 3; ++step) {
      flat.buffer.zero_();
      loss_of(model, input, 1 + step).backward();
      flat.expect_is_used();
    }
    loss_of(model, input, 7).backward();  // added to the previous gradient
    flat.expect_is_used();
  });
}

TEST(UsersGradients, TakeTheAverageAfterNoSync) {
  expect_as_alone([](auto& model, Chain& net, const auto& input) {
    first_step(model, net, input);
    Flat flat(*net);
    {
      [[maybe_unused]] const auto guard = model.no_sync();
      loss_of(model, input, 1).backward();
    }
    loss_of(model, input, 2).backward();
    flat.expect_is_used();
  });
}

// dAD averages these parameters as gradients.
TEST(UsersGradients, TakePenalties) {
  expect_as_alone([](auto& model, Chain& net, const auto& input) {
    Flat flat(*net);
    for (int step = 0; step < 3; ++step) {
      flat.buffer.zero_();
      at::Tensor loss = loss_of(model, input, 1 + step);
      for (const at::Tensor& one : net->parameters())
        loss = loss + one.square().sum() * input(1).mean();
      loss.backward();
      flat.expect_is_used();
    }
  });
}

TEST(UsersGradients, StayWhereABackwardThrows) {
  expect_as_alone([](auto& model, Chain& net, const auto& input) {
    Flat flat(*net);
    loss_of(model, input, 1).backward();
    const auto hook =
        net->a->weight.register_hook([](const at::Tensor& g) -> at::Tensor {
          throw std::runtime_error("a user's error");
          return g;
        });
    EXPECT_THROW(loss_of(model, input, 2).backward(), std::runtime_error);
    net->a->weight.remove_hook(hook);
    flat.buffer.zero_();
    loss_of(model, input, 3).backward();
    flat.expect_is_used();
  });
}

// Rank 1 does not use the second layer, and finishes early.
TEST(UsersGradients, TakeTheAverageOfOtherRanks) {
  run_threads(2, [](const Group& group) {
    Chain net;
    DataParallel model(net, group, {.find_unused_parameters = true});
    Flat flat(*net);
    const auto loss = [&] {
      const at::Tensor output = model.forward(torch::ones({2, 3}));
      return group.rank() == 0 ? output.sum() : net->kept.sum();
    };
    for (int step = 0; step < 2; ++step) {
      flat.buffer.zero_();
      loss().backward();
      flat.expect_is_used();
      // Two rows of relu(3 * 0.5 + 0.5), on one of two ranks.
      EXPECT_TRUE(torch::all(net->b->weight.grad() == 2.0).item<bool>())
          << net->b->weight.grad();
    }
    flat.buffer.zero_();
    auto join = model.join();
    if (group.rank() == 0) loss().backward();
    join.finish();
    flat.expect_is_used();
    EXPECT_TRUE(torch::all(net->b->weight.grad() == 2.0).item<bool>())
        << net->b->weight.grad();
  });
}

// Memory that libtorch did not allocate, and memory shared by two parameters.
TEST(UsersGradients, MayBeAnyMemory) {
  expect_as_alone([](auto& model, Chain& net, const auto& input) {
    const auto type = net->a->weight.options().requires_grad(false);
    const auto memory = std::make_shared<std::vector<double>>(12);
    const auto view = [&] {
      return torch::from_blob(
          memory->data(), {4, 3}, [memory](void*) {}, type);
    };
    const at::Tensor blob = view();
    const at::Tensor shared = torch::zeros({10}, type);
    net->a->weight.mutable_grad() = view();
    net->a->bias.mutable_grad() = shared.narrow(0, 0, 4);
    net->b->weight.mutable_grad() = shared.narrow(0, 2, 8).view({2, 4});
    for (int step = 0; step < 2; ++step) {
      blob.zero_();
      shared.zero_();
      loss_of(model, input, 1 + step).backward();
      EXPECT_TRUE(blob.equal(net->a->weight.grad()));
    }
    EXPECT_EQ(net->a->weight.grad().data_ptr(), memory->data());
    EXPECT_TRUE(net->a->bias.grad().storage().is_alias_of(shared.storage()));
  });
}

// A parameter that no rank uses after this rank has finished.
TEST(UsersGradients, StayWhileOthersGoOn) {
  run_threads(2, [](const Group& group) {
    Chain net;
    DataParallel model(net, group, {.find_unused_parameters = true});
    Flat flat(*net);
    flat.buffer.fill_(1);
    auto join = model.join();
    if (group.rank() == 0) {
      flat.buffer.zero_();
      model.forward(torch::ones({1, 3}));
      net->kept.sum().backward();
    }
    join.finish();
    flat.expect_is_used();
    EXPECT_TRUE(torch::all(net->b->weight.grad() == group.rank()).item<bool>());
  });
}

// Large gradients are exchanged in place.
TEST(UsersGradients, MayBeLarge) {
  run_threads(2, [](const Group& group) {
    torch::nn::Linear net(512, 300);
    DataParallel model(net, group);
    Flat flat(*net);
    for (int step = 1; step <= 2; ++step) {
      flat.buffer.zero_();
      const at::Tensor x = torch::full({1, 512}, step * (group.rank() + 1.0));
      model.forward(x).sum().backward();
      flat.expect_is_used();
      EXPECT_TRUE(torch::all(net->weight.grad() == step * 1.5).item<bool>());
    }
  });
}

}  // namespace
}  // namespace sheaf::parallel
