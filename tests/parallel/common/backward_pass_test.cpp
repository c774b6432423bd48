#include "sheaf/parallel/common/backward_pass.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/parallel/common/chain.hpp"

// What users do with tensors and graphs between and within passes, under each
// strategy.
namespace sheaf::parallel {
namespace {

using namespace test;

// Layers are in separate messages, which are sent as soon as they are complete.
TEST(BackwardPass, GraphsOfEarlierForwardsCount) {
  with_each_strategy(
      2,
      [](auto& model, Chain& net, const Group& group) {
        const auto type = net->a->weight.scalar_type();
        const at::Tensor x = input_for(group, type);
        model.forward(x).square().mean().backward();
        for (int step = 0; step < 2; ++step) {
          forget_gradients(*net);
          const at::Tensor first = model.forward(x).square().mean();
          const at::Tensor second = model.forward(2 * x).square().mean();
          first.backward();
          second.backward();
          const auto both = [](ChainImpl& alone, const at::Tensor& mine) {
            return plain_loss(alone, mine) + plain_loss(alone, 2 * mine);
          };
          expect_gradients(net, gradients_alone(net, group.size(), both));
          forget_gradients(*net);
          const at::Tensor loss = model.forward(x).square().mean();
          loss.backward({}, /*retain_graph=*/true);
          loss.backward();
          const auto twice = [](ChainImpl& alone, const at::Tensor& mine) {
            return 2 * plain_loss(alone, mine);
          };
          expect_gradients(net, gradients_alone(net, group.size(), twice));
        }
      },
      /*parcel_bytes=*/1);
}

// x + pos gives both gradients the same memory, and backward() still reads that
// of x.
TEST(BackwardPass, AveragesNothingThatBackwardStillReads) {
  struct TableImpl : torch::nn::Module {
    TableImpl() {
      first = register_module("first", torch::nn::Linear(8, 768));
      table = register_parameter("table", torch::zeros({197, 768}));
    }
    at::Tensor forward(const at::Tensor& x) {
      return first(x) + table.unsqueeze(0);
    }
    torch::nn::Linear first{nullptr};
    at::Tensor table;
  };
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    run_threads(2, [&](const Group& group) {
      auto net = std::make_shared<TableImpl>();
      DataParallel model(net, group, {.overlap = overlap});
      for (int step = 0; step < 4; ++step) {
        forget_gradients(*net);
        const at::Tensor x = torch::ones({1, 197, 8});
        const double scale = 2 + group.rank();  // 2 and 3
        (model.forward(x) * scale).sum().backward();
        EXPECT_TRUE((net->table.grad() == 2.5).all().item<bool>());
        EXPECT_TRUE((net->first->bias.grad() == 2.5 * 197).all().item<bool>())
            << net->first->bias.grad()[0];
      }
    });
}

TEST(BackwardPass, LargeGradientsAreExchangedWhereTheyWereMade) {
  run_threads(2, [](const Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(300, 300));
    const at::Tensor weight = net->parameters()[0];
    const void* made = nullptr;
    const GradientHooks before({weight}, [&](const NewGradient& gradient) {
      EXPECT_TRUE(gradient.owns_memory);
      made = weight.grad().data_ptr();
    });
    DataParallel model(net, group);
    for (int step = 0; step < 3; ++step) {
      forget_gradients(*net);
      model.forward(torch::ones({4, 300})).sum().backward();
      EXPECT_EQ(weight.grad().data_ptr(), made);
    }
  });
}

TEST(BackwardPass, HooksOfHiddenTensorsCount) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    net->on_hidden = [](const at::Tensor& hidden) {
      if (hidden.requires_grad())
        hidden.register_hook([](const at::Tensor& g) { return g * 0.5; });
      return hidden;
    };
    for (int step = 0; step < 3; ++step) {
      forget_gradients(*net);
      model.forward(input_for(group, type)).square().mean().backward();
      expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
    }
  });
}

TEST(BackwardPass, HooksThatChangeGradientsInPlaceCount) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    net->on_hidden = [](const at::Tensor& hidden) {
      if (hidden.requires_grad())
        hidden.register_hook([](at::Tensor g) { g.mul_(0.5); });
      return hidden;
    };
    for (int step = 0; step < 3; ++step) {
      forget_gradients(*net);
      model.forward(input_for(group, type)).square().mean().backward();
      expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
    }
  });
}

TEST(BackwardPass, HooksOfParametersCountWheneverTheyCome) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    for (int step = 0; step < 3; ++step) {
      forget_gradients(*net);
      const auto loss = model.forward(input_for(group, type)).square().mean();
      // After forward(), so that forward() does not know of the hook.
      const auto key = net->a->weight.register_hook(
          [](const at::Tensor& g) { return g * 3; });
      loss.backward();
      net->a->weight.remove_hook(key);
      auto want = gradients_alone(net, group.size(), plain_loss);
      want[0] = want[0] * 3;
      expect_gradients(net, want);
    }
  });
}

TEST(BackwardPass, PenaltiesOnHiddenTensorsCountHoweverSmall) {
  for (const double penalty : {1e-2, 1e-4, 1e-9}) {
    const auto loss_of = [=](ChainImpl& net, const at::Tensor& x) {
      const at::Tensor y = net.forward(x);
      return y.square().mean() + penalty * net.kept.square().mean();
    };
    with_each_strategy(2, [=](auto& model, Chain& net, const Group& group) {
      const auto type = net->a->weight.scalar_type();
      for (int step = 0; step < 3; ++step) {
        forget_gradients(*net);
        const at::Tensor y = model.forward(input_for(group, type));
        (y.square().mean() + penalty * net->kept.square().mean()).backward();
        expect_gradients(net, gradients_alone(net, group.size(), loss_of));
      }
    });
  }
}

// Recomputes a part of the network in backward(), as checkpointing libraries
// do: a nested backward().
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* context, const at::Tensor& x,
      const std::function<at::Tensor(const at::Tensor&)>* part) {
    context->save_for_backward({x});
    context->saved_data["part"] = reinterpret_cast<std::int64_t>(part);
    const torch::NoGradGuard no_grad;
    return (*part)(x);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto* part =
        reinterpret_cast<const std::function<at::Tensor(const at::Tensor&)>*>(
            context->saved_data["part"].toInt());
    const torch::AutoGradMode grad(true);
    const at::Tensor x =
        context->get_saved_variables()[0].detach().requires_grad_();
    (*part)(x).backward(gradients[0]);
    return {x.grad(), {}};
  }
};

TEST(BackwardPass, LayersMayBeComputedAgain) {
  struct NetImpl : torch::nn::Module {
    NetImpl() {
      first = register_module("first", torch::nn::Linear(4, 4));
      second = register_module("second", torch::nn::Linear(4, 4));
      to(torch::kDouble);
      const torch::NoGradGuard no_grad;
      for (at::Tensor& one : parameters()) one.fill_(0.3);
      part = [this](const at::Tensor& x) { return second(torch::tanh(x)); };
    }
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor hidden = first(x);
      const at::Tensor again =
          recomputes ? Recomputed::apply(hidden, &part) : part(hidden);
      return is_tied ? second(again) : again;
    }
    torch::nn::Linear first{nullptr}, second{nullptr};
    std::function<at::Tensor(const at::Tensor&)> part;
    bool recomputes = false;
    bool is_tied = false;
  };
  const auto check = [](auto& model, const std::shared_ptr<NetImpl>& net,
                        const Group& group) {
    for (const bool is_tied : {false, true})
      for (int step = 0; step < 3; ++step) {
        net->is_tied = is_tied;
        std::vector<at::Tensor> want;
        for (const bool recomputes : {false, true}) {
          net->recomputes = recomputes;
          forget_gradients(*net);
          const at::Tensor x =
              torch::full({2, 4}, group.rank() + 1.0, torch::kDouble);
          model.forward(x).square().mean().backward();
          for (std::size_t i = 0; i < 4; ++i) {
            const at::Tensor& got = net->parameters()[i].grad();
            ASSERT_TRUE(got.defined()) << i;
            if (!recomputes)
              want.push_back(got.clone());
            else
              EXPECT_TRUE(torch::allclose(got, want[i], 1e-13, 0)) << i;
          }
        }
      }
  };
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff}) {
    run_threads(2, [&](const Group& group) {
      auto net = std::make_shared<NetImpl>();
      DataParallel model(net, group,
                         {.first_bucket_mb = 1e-5, .overlap = overlap});
      check(model, net, group);
    });
    run_threads(2, [&](const Group& group) {
      auto net = std::make_shared<NetImpl>();
      DadParallel model(net, group,
                        {.link = LinkModel{.ranks = 2}, .overlap = overlap});
      check(model, net, group);
    });
  }
}

TEST(BackwardPass, GradientsOfGivenWeightsAreTheRanksOwn) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const at::Tensor x = input_for(group, net->a->weight.scalar_type());
    for (int step = 0; step < 2; ++step) {
      forget_gradients(*net);
      const at::Tensor loss = model.forward(x).square().mean();
      const auto own =
          torch::autograd::grad({loss}, net->parameters(), {}, true);
      ASSERT_TRUE(own[0].defined() && own[3].defined());
      EXPECT_FALSE(net->a->weight.grad().defined());
      loss.backward();
      expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
      const double share = own[2].abs().sum().item<double>() /
                           net->b->weight.grad().abs().sum().item<double>();
      EXPECT_TRUE(group.rank() == 0 ? share < 1 : share > 1) << share;
    }
  });
}

TEST(BackwardPass, RefusesToAverageDifferentiableGradients) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const at::Tensor x = input_for(group, net->a->weight.scalar_type());
    EXPECT_THROW(model.forward(x).square().mean().backward(
                     {}, /*retain_graph=*/true, /*create_graph=*/true),
                 UsageError);
    forget_gradients(*net);
    model.forward(x).square().mean().backward();  // later passes work
    expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
  });
}

TEST(BackwardPass, InputsOfForwardsWithoutBackwardAreLetGo) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    for (int step = 0; step < 3; ++step) {
      std::vector<at::Tensor> inputs;
      for (int i = 0; i < 5; ++i) {
        inputs.push_back(input_for(group, type));
        model.forward(inputs.back());
        net->kept.reset();
      }
      // Inputs of the first call may have been sent already.
      for (std::size_t i = 1; i < inputs.size(); ++i)
        EXPECT_EQ(inputs[i].storage().use_count(), 1) << i;
      forget_gradients(*net);
      model.forward(input_for(group, type)).square().mean().backward();
      expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
    }
  });
}

TEST(BackwardPass, GradientsThatWaitMayBeReset) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    for (int step = 0; step < 3; ++step) {
      {
        const auto guard = model.no_sync();
        (model.forward(x).square().mean() * 1000).backward();
        if (step == 1) (model.forward(x).square().mean() * 1000).backward();
      }
      forget_gradients(*net);
      model.forward(x).square().mean().backward();
      expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
      // Also between forward() and backward().
      {
        const auto guard = model.no_sync();
        (model.forward(x).square().mean() * 1000).backward();
      }
      const at::Tensor loss = model.forward(x).square().mean();
      forget_gradients(*net);
      loss.backward();
      expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
      forget_gradients(*net);
    }
  });
}

TEST(BackwardPass, GradientsThatWaitMayNotBeChanged) {
  run_threads(2, [](const Group& group) {
    Chain net;
    DadParallel model(net, group, {.link = LinkModel{.ranks = 2}});
    const at::Tensor x = input_for(group, at::kFloat);
    model.forward(x).square().mean().backward();
    forget_gradients(*net);
    {
      const auto guard = model.no_sync();
      model.forward(x).square().mean().backward();
    }
    net->b->weight.mutable_grad().mul_(2);
    EXPECT_THROW(model.forward(x), UsageError);
  });
}

TEST(BackwardPass, AForwardWithoutBackwardGivesNoGradient) {
  struct TwoImpl : torch::nn::Module {
    TwoImpl() {
      a = register_module("a", torch::nn::Linear(3, 2));
      b = register_module("b", torch::nn::Linear(3, 2));
      to(torch::kDouble);
    }
    at::Tensor forward(const at::Tensor& x, bool is_first) {
      return is_first ? a(x) : b(x);
    }
    torch::nn::Linear a{nullptr}, b{nullptr};
  };
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    for (const DadMode mode : {DadMode::kDad, DadMode::kRankDad})
      run_threads(2, [&](const Group& group) {
        auto net = std::make_shared<TwoImpl>();
        DadParallel model(net, group,
                          {.mode = mode,
                           .link = LinkModel{.ranks = 2},
                           .find_unused_parameters = true,
                           .overlap = overlap});
        const at::Tensor x = input_for(group, at::kDouble);
        (model.forward(x, true) + model.forward(x, false)).sum().backward();
        for (int step = 0; step < 3; ++step) {
          forget_gradients(*net);
          model.forward(x, true);
          model.forward(x, false).sum().backward();
          EXPECT_FALSE(net->a->weight.grad().defined());
          EXPECT_FALSE(net->a->bias.grad().defined());
          EXPECT_TRUE(net->b->weight.grad().defined());
        }
      });
}

// Inputs that were sent in forward() are ignored, and do not contribute even as
// zero times infinity.
TEST(BackwardPass, AForwardWithoutBackwardMayHaveAnyNumbers) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    model.forward(x).square().mean().backward();
    for (int step = 0; step < 2; ++step) {
      const at::Tensor kept = model.forward(x / 0);
      forget_gradients(*net);
      model.forward(x).square().mean().backward();
      expect_gradients(net, gradients_alone(net, group.size(), plain_loss));
    }
  });
}

// A graph whose rows were reset does not use the rows of a later graph.
TEST(BackwardPass, AGraphWhoseGradientsWereResetMayBeUsedAgain) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    const at::Tensor x = input_for(group, type);
    model.forward(x).square().mean().backward();
    at::Tensor old;
    {
      const auto guard = model.no_sync();
      old = model.forward(3 * x).square().mean();
      old.backward({}, /*retain_graph=*/true);
    }
    forget_gradients(*net);
    (model.forward(x).square().mean() + old).backward();
    const auto both = [](ChainImpl& alone, const at::Tensor& mine) {
      return plain_loss(alone, mine) + plain_loss(alone, 3 * mine);
    };
    expect_gradients(net, gradients_alone(net, group.size(), both));
  });
}

TEST(BackwardPass, ARankWithoutRowsTakesPart) {
  with_each_strategy(2, [](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    for (int step = 0; step < 2; ++step) {
      forget_gradients(*net);
      const at::Tensor x = group.rank() == 0 ? input_for(group, type)
                                             : torch::ones({0, 3}, type);
      model.forward(x).square().sum().backward();
      const at::Tensor& gradient = net->a->weight.grad();
      ASSERT_TRUE(gradient.defined());
      EXPECT_GT(gradient.abs().sum().item<double>(), 0);
    }
    model.check_weights();
  });
}

}  // namespace
}  // namespace sheaf::parallel
