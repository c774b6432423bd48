#include <gtest/gtest.h>

#include <stdexcept>

#include "sheaf/base/error.hpp"
#include "tests/parallel/common/chain.hpp"

// Passes that end with a user's exception, under each strategy.
namespace sheaf::parallel {
namespace {

using namespace test;

TEST(BrokenPass, LeavesNothingBehind) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    for (int step = 0; step < 4; ++step) {
      bool throws = step % 2 == 0;
      net->on_hidden = [&](const at::Tensor& hidden) {
        if (throws && hidden.requires_grad())
          hidden.register_hook([](const at::Tensor& g) -> at::Tensor {
            throw std::runtime_error("a user's error");
            return g;
          });
        return hidden;
      };
      forget_gradients(*net);
      const double scale = throws ? 1000 : 1;
      const auto run = [&] {
        (model.forward(x).square().mean() * scale).backward();
      };
      if (throws) {
        EXPECT_THROW(run(), std::runtime_error);
        EXPECT_FALSE(net->b->weight.grad().defined());
      } else {
        run();
        net->on_hidden = nullptr;
        expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
      }
    }
  });
}

// One rank throws before its pass has begun, the other after; nothing has been
// sent.
TEST(BrokenPass, RanksMayThrowAtDifferentPoints) {
  const auto body = [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    for (int step = 0; step < 3; ++step) {
      const auto fail = [&] {
        const at::Tensor y = model.forward(x);
        if (group.rank() == step % 2) throw std::runtime_error("before");
        y.register_hook([](const at::Tensor& g) -> at::Tensor {
          throw std::runtime_error("within");
          return g;
        });
        y.square().mean().backward();
      };
      EXPECT_THROW(fail(), std::runtime_error);
      forget_gradients(*net);
      model.forward(x).square().mean().backward();
      expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
    }
  };
  with_each_strategy(2, body, plan::kParcelBytes, {Overlap::kOff});
}

// The next pass of the other rank receives what was sent, but fails.
TEST(BrokenPass, ARankThatThrowsAfterItSentAPartIsAnErrorOnAll) {
  const auto expect_error = [](auto& model, Chain& net, const Group& group) {
    const at::Tensor x = input_for(group, net->a->weight.scalar_type());
    const auto step = [&] { model.forward(x).square().mean().backward(); };
    step();
    if (group.rank() == 0) {
      net->on_hidden = [](const at::Tensor& hidden) {
        hidden.register_hook([](const at::Tensor& g) -> at::Tensor {
          throw std::runtime_error("a user's error");
          return g;
        });
        return hidden;
      };
      EXPECT_THROW(step(), std::runtime_error);
      net->on_hidden = nullptr;
    }
    EXPECT_THROW(step(), Error);
  };
  run_threads(2, [&](const Group& group) {
    Chain net;
    DataParallel model(net, group,
                       {.first_bucket_mb = 1e-5, .overlap = Overlap::kOn});
    expect_error(model, net, group);
  });
  for (const DadMode mode : {DadMode::kDad, DadMode::kEdad})
    run_threads(2, [&](const Group& group) {
      Chain net;
      DadParallel model(net, group,
                        {.mode = mode,
                         .link = LinkModel{.ranks = 2},
                         .average = Average::kRanks,
                         .parcel_bytes = 1,
                         .overlap = Overlap::kOn});
      expect_error(model, net, group);
    });
}

// A pass ends with an exchange that begins after backward(), so the pass of the
// other rank waits for a backward() that succeeds.
TEST(BrokenPass, ARankMayThrowAfterItsLastGradient) {
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    run_threads(2, [&](const Group& group) {
      Chain net;
      DataParallel model(net, group, {.overlap = overlap});
      const at::Tensor leaf =
          input_for(group, at::kFloat).set_requires_grad(true);
      for (int step = 0; step < 3; ++step) {
        forget_gradients(*net);
        if (group.rank() == step % 2) {
          const at::Tensor x = leaf * 1;
          x.register_hook([&](const at::Tensor& g) -> at::Tensor {
            EXPECT_FALSE(net->a->weight.grad().defined());  // was taken
            throw std::runtime_error("a user's error");
            return g;
          });
          const at::Tensor loss = model.forward(x).square().mean() * 1000;
          EXPECT_THROW(loss.backward(), std::runtime_error);
        }
        model.forward(leaf).square().mean().backward();
        expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
      }
    });
}

// The same graph may be used again: the hook runs before or after those of the
// strategy.
TEST(BrokenPass, LeavesNothingForTheNextBackward) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    bool throws = true;
    const auto hook = [&](const at::Tensor& g) -> at::Tensor {
      if (throws) throw std::runtime_error("a user's error");
      return g;
    };
    for (const bool is_at_output : {true, false}) {
      throws = true;
      net->on_hidden = [&](const at::Tensor& hidden) {
        if (!is_at_output && hidden.requires_grad()) hidden.register_hook(hook);
        return hidden;
      };
      const at::Tensor output =
          model.forward(input_for(group, net->a->weight.scalar_type()));
      if (is_at_output) output.register_hook(hook);
      const at::Tensor loss = output.square().mean();
      EXPECT_THROW(loss.backward({}, /*retain_graph=*/true),
                   std::runtime_error);
      throws = false;
      forget_gradients(*net);
      loss.backward();
      net->on_hidden = nullptr;
      expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
      forget_gradients(*net);
    }
  });
}

TEST(BrokenPass, AForwardThatThrowsLeavesNothingBehind) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    for (int step = 0; step < 4; ++step) {
      const bool throws = step % 2 == 1;
      if (throws)
        net->on_hidden = [](const at::Tensor&) -> at::Tensor {
          throw std::runtime_error("a user's error");
        };
      forget_gradients(*net);
      const at::Tensor x = input_for(group, type);
      if (throws) {
        EXPECT_THROW(model.forward(x), std::runtime_error);
        net->on_hidden = nullptr;
      } else {
        model.forward(x).square().mean().backward();
        expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
      }
    }
  });
}

}  // namespace
}  // namespace sheaf::parallel
