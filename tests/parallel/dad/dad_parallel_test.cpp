#include "sheaf/parallel/dad/dad_parallel.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "tests/parallel/dad/dad_training.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
using comm::Group;
using comm::run_threads;

template <class Net>
void expect_alone_weights(const std::function<std::shared_ptr<Net>()>& make,
                          const Setting& setting, double tolerance) {
  const auto alone = train_alone(make, setting);
  for (const int ranks : {1, 2, 3, 4})
    run_threads(ranks, [&](const Group& group) {
      const auto together = train_together(make, setting, group);
      EXPECT_LE(distance(together, alone), tolerance) << ranks << " ranks";
    });
}

TEST(DadParallel, GivesTheWeightsOfOneProcess) {
  for (const Where where : {Where::kAllGather, Where::kStar}) {
    const DadOptions options{.where = where};
    expect_alone_weights(maker<PlainNetImpl>(true), {.options = options},
                         1e-12);
    expect_alone_weights(maker<PlainNetImpl>(false), {.options = options},
                         1e-12);
    expect_alone_weights(maker<PlainNetImpl>(true),
                         {.type = at::kFloat, .options = options}, 1e-5);
  }
}

TEST(DadParallel, GivesTheWeightsOfOneProcessBesideBackward) {
  const DadOptions options{.overlap = Overlap::kOn};
  expect_alone_weights(maker<PlainNetImpl>(true), {.options = options}, 1e-12);
  expect_alone_weights(maker<SequenceNetImpl>(), {.options = options}, 1e-12);
}

TEST(DadParallel, TrialsOfPlansAreExact) {
  const DadOptions options{.mode = DadMode::kAuto, .has_trials = true};
  expect_alone_weights(maker<MlpImpl>(), {.options = options}, 1e-12);
  expect_alone_weights(maker<SharedNetImpl>(),
                       {.pieces = 2, .options = options}, 1e-12);
}

TEST(DadParallel, SharedRareAndUnusedLayers) {
  expect_alone_weights(maker<SharedNetImpl>(), {}, 1e-12);
}

TEST(DadParallel, SequencesCellsAndAttention) {
  expect_alone_weights(maker<SequenceNetImpl>(), {}, 1e-12);
  expect_alone_weights(maker<SequenceNetImpl>(), {.type = at::kFloat}, 1e-5);
}

TEST(DadParallel, TablesThatAreAlsoWeights) {
  expect_alone_weights(maker<WordNetImpl>(), {}, 1e-12);
}

TEST(DadParallel, ConvolutionsAndBatchNorm) {
  expect_alone_weights(
      maker<ConvNetImpl>(true),
      {.sync_norm = true, .options = {.broadcast_buffers = false}}, 1e-12);
}

TEST(DadParallel, AccumulationIsMoreRows) {
  expect_alone_weights(maker<PlainNetImpl>(true), {.pieces = 3}, 1e-12);
  expect_alone_weights(maker<SharedNetImpl>(), {.pieces = 2}, 1e-12);
}

TEST(DadParallel, ParametersInTheLossItself) {
  expect_alone_weights(maker<PlainNetImpl>(true), {.decay = 0.01}, 1e-12);
}

TEST(DadParallel, ZerosAreNotSent) {
  expect_alone_weights(maker<MlpImpl>(), {.options = {.skips_zeros = true}},
                       1e-12);
}

TEST(DadParallel, FullRankIsExact) {
  const DadOptions options{.mode = DadMode::kRankDad, .rank = 64};
  expect_alone_weights(maker<PlainNetImpl>(true), {.options = options}, 1e-6);
  const DadOptions two_way{.mode = DadMode::kRankDad,
                           .rank = 64,
                           .where = Where::kStar,
                           .is_two_way = true};
  expect_alone_weights(maker<PlainNetImpl>(true), {.options = two_way}, 1e-6);
  expect_alone_weights(maker<WordNetImpl>(), {.options = two_way}, 1e-6);
}

TEST(DadParallel, DeltasThatNeedNotBeSent) {
  const DadOptions options{.mode = DadMode::kEdad};
  expect_alone_weights(maker<MlpImpl>(), {.options = options}, 1e-12);
  expect_alone_weights(maker<PlainNetImpl>(false), {.options = options}, 1e-12);
  expect_alone_weights(maker<MlpImpl>(),
                       {.type = at::kFloat, .options = options}, 1e-5);
  // If the layers do not form a plain chain, deltas are sent.
  expect_alone_weights(maker<SharedNetImpl>(), {.options = options}, 1e-12);
  expect_alone_weights(maker<SequenceNetImpl>(), {.options = options}, 1e-12);
  expect_alone_weights(maker<PlainNetImpl>(true),
                       {.pieces = 2, .options = options}, 1e-12);
}

TEST(DadParallel, ReportsWhichDeltasWereDerived) {
  constexpr std::int64_t kRows = 4;
  run_threads(2, [&](const Group& group) {
    auto net = make_net(maker<MlpImpl>(), at::kFloat, 1);
    DadParallel model(net, group,
                      {.mode = DadMode::kEdad, .skips_zeros = false});
    const Examples mine = share_of(examples(0, 2 * kRows, at::kFloat),
                                   group.rank(), group.size());
    part_of_loss(model.forward(mine.data), mine, kRows).backward();
    std::map<std::string, std::string> reasons;
    for (const auto& route : model.routes()) reasons[route.name] = route.reason;
    EXPECT_EQ(reasons["first.weight"],
              "delta computed from that of second.weight");
    EXPECT_EQ(reasons["second.weight"],
              "delta computed from that of last.weight");
    EXPECT_EQ(reasons["last.weight"],
              "delta sent: it cannot be derived from the layer above");
    EXPECT_EQ(model.stats().bytes, kRows * (12 + 20 + 16 + 4) * 4);
  });
}

// Keeps a hidden tensor that a loss may use.
struct KeepingNetImpl : torch::nn::Module {
  torch::nn::Linear first{12, 20}, last{20, 4};
  at::Tensor hidden;
  KeepingNetImpl() {
    register_module("first", first);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) {
    hidden = torch::relu(first(x));
    return last(hidden);
  }
};

TEST(DadParallel, SeesWhatTheLossTakesFromInside) {
  constexpr std::int64_t kRows = 6;
  const Examples all = examples(0, 2 * kRows, at::kDouble);
  const auto loss_of = [](KeepingNetImpl& net, const at::Tensor& output,
                          const Examples& some) {
    return part_of_loss(output, some, some.data.size(0)) +
           net.hidden.square().mean();
  };
  auto alone = make_net(maker<KeepingNetImpl>(), at::kDouble, 1);
  loss_of(*alone, alone->forward(all.data), all).backward();
  run_threads(2, [&](const Group& group) {
    auto net = make_net(maker<KeepingNetImpl>(), at::kDouble, 1);
    DadParallel model(net, group,
                      {.mode = DadMode::kEdad, .average = Average::kRanks});
    const Examples mine = share_of(all, group.rank(), group.size());
    for (const bool is_hidden_used : {false, true}) {
      net->zero_grad();
      const at::Tensor output = model.forward(mine.data);
      (is_hidden_used ? loss_of(*net, output, mine)
                      : part_of_loss(output, mine, kRows))
          .backward();
      EXPECT_EQ(model.routes()[0].reason,
                is_hidden_used
                    ? "delta sent: it cannot be derived from the layer above"
                    : "delta computed from that of last.weight");
    }
    for (const auto& item : net->named_parameters())
      EXPECT_LT(
          (item.value().grad() - alone->named_parameters()[item.key()].grad())
              .norm()
              .item<double>(),
          1e-14)
          << item.key();
  });
}

TEST(DadParallel, ReportsTheRouteOfEachParameter) {
  run_threads(2, [](const Group& group) {
    auto net = make_net(maker<ConvNetImpl>(true), at::kFloat, 1);
    DadParallel model(net, group);
    EXPECT_TRUE(model.routes().empty());
    {
      const at::NoGradGuard no_grad;  // does not show how gradients flow
      model.forward(examples(0, 2, at::kFloat).data);
      EXPECT_TRUE(model.routes().empty());
    }
    for (int step = 0; step < 2; ++step) {
      const Examples mine =
          share_of(examples(step, 8, at::kFloat), group.rank(), group.size());
      part_of_loss(model.forward(mine.data), mine, 4).backward();
    }
    std::map<std::string, std::string> routes;
    for (const auto& route : model.routes()) routes[route.name] = route.route;
    EXPECT_EQ(routes["conv.weight"], "gradient");
    EXPECT_EQ(routes["norm.weight"], "gradient");
    EXPECT_EQ(routes["last.weight"], "dad");
    EXPECT_EQ(routes["last.bias"], "with its weight");
    EXPECT_EQ(routes.size(), 6);
  });
}

// Words received by a rank: (S - 1) n (i + o), as in docs/explanation/dad.md.
TEST(DadParallel, CountsItsBytes) {
  constexpr int kRanks = 3;
  constexpr std::int64_t kRows = 5;
  run_threads(kRanks, [&](const Group& group) {
    auto net = make_net(maker<PlainNetImpl>(true), at::kFloat, 1);
    DadParallel model(net, group, {.skips_zeros = false});
    for (int step = 0; step < 3; ++step) {
      model.reset_stats();
      const Examples mine = share_of(examples(step, kRanks * kRows, at::kFloat),
                                     group.rank(), group.size());
      part_of_loss(model.forward(mine.data), mine, kRows).backward();
    }
    std::map<std::string, FactorStats> last;
    for (const auto& route : model.routes()) last[route.name] = route.last;
    EXPECT_EQ(last["first.weight"].sent, kRows * (12 + 20) * 4);
    EXPECT_EQ(last["first.weight"].received, 2 * kRows * (12 + 20) * 4);
    EXPECT_EQ(last["last.weight"].received, 2 * kRows * (20 + 4) * 4);
    EXPECT_EQ(last["first.weight"].rows, kRanks * kRows);
    EXPECT_EQ(model.stats().bytes, kRows * (12 + 20 + 20 + 4) * 4);
  });
}

// An optional layer of each kind, and a normalization: ranks may use any of
// them.
struct ChoosyImpl : torch::nn::Module {
  ChoosyImpl() {
    last = register_module("last", torch::nn::Linear(12, 4));
    norm = register_module(
        "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({12})));
    extra = register_module("extra", torch::nn::Linear(12, 12));
  }
  at::Tensor forward(const at::Tensor& x, bool has_norm, bool has_extra) {
    at::Tensor y = has_norm ? norm(x) : x;
    if (has_extra) y = torch::tanh(extra(y));
    return last(y);
  }
  torch::nn::Linear last{nullptr}, extra{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};

// Zeros if no rank has used it, because libtorch 2 resets gradients to
// undefined.
at::Tensor gradient_of(const at::Tensor& parameter) {
  return parameter.grad().defined() ? parameter.grad()
                                    : at::zeros_like(parameter);
}

TEST(DadParallel, RanksMayUseDifferentParameters) {
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    run_threads(2, [&](const Group& group) {
      auto net = make_net(maker<ChoosyImpl>(), at::kDouble, 1);
      auto alone = make_net(maker<ChoosyImpl>(), at::kDouble, 1);
      DadParallel model(net, group,
                        {.routes = {{"extra.weight", Route::kGradient}},
                         .link = LinkModel{},
                         .find_unused_parameters = true,
                         .overlap = overlap});
      const auto has = [](int step, int rank, int what) {
        return step == 0 || (step * 2 + rank) >> what & 1;
      };
      for (int step = 0; step < 8; ++step) {
        const Examples all = examples(step, 6, at::kDouble);
        const Examples mine = share_of(all, group.rank(), 2);
        net->zero_grad();
        alone->zero_grad();
        part_of_loss(model.forward(mine.data, has(step, group.rank(), 0),
                                   has(step, group.rank(), 1)),
                     mine, 3)
            .backward();
        for (int rank = 0; rank < 2; ++rank) {
          const Examples part = share_of(all, rank, 2);
          part_of_loss(
              alone->forward(part.data, has(step, rank, 0), has(step, rank, 1)),
              part, 6)
              .backward();
        }
        const auto ours = net->parameters();
        const auto theirs = alone->parameters();
        for (std::size_t i = 0; i < ours.size(); ++i)
          EXPECT_TRUE(
              at::allclose(gradient_of(ours[i]), gradient_of(theirs[i])))
              << "step " << step << ", parameter " << i;
      }
    });
}

// A rank that only knows the order of the parameters, not that of the layers.
TEST(DadParallel, ARankMayHaveNoRows) {
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    run_threads(2, [&](const Group& group) {
      auto net = make_net(maker<ChoosyImpl>(), at::kDouble, 1);
      DadParallel model(net, group,
                        {.link = LinkModel{},
                         .average = Average::kRanks,
                         .overlap = overlap});
      const Examples all = examples(0, 6, at::kDouble);
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        if (group.rank() == 0) {
          part_of_loss(model.forward(all.data, true, true), all, 6).backward();
        } else {
          static_cast<DadParallelCore&>(model).before_forward();
          static_cast<DadParallelCore&>(model).after_forward({});
          at::Tensor none = at::zeros({}, at::kDouble);
          for (const auto& one : net->parameters()) none = none + one.sum() * 0;
          none.backward();
        }
        model.check_weights();
        auto alone = make_net(maker<ChoosyImpl>(), at::kDouble, 1);
        part_of_loss(alone->forward(all.data, true, true), all, 12).backward();
        EXPECT_TRUE(
            at::allclose(net->last->weight.grad(), alone->last->weight.grad()));
      }
    });
}

// Several graphs at once, a graph used twice, gradients that must be kept, and
// autograd::grad() in between.
TEST(DadParallel, GraphsOfAllKinds) {
  run_threads(2, [&](const Group& group) {
    auto net = make_net(maker<PlainNetImpl>(true), at::kDouble, 1);
    auto alone = make_net(maker<PlainNetImpl>(true), at::kDouble, 1);
    DadParallel model(net, group, {.link = LinkModel{}});
    const auto losses = [&](auto&& forward, const Examples& mine) {
      const at::Tensor a = part_of_loss(forward(mine.data), mine, 3);
      const at::Tensor b = part_of_loss(forward(mine.data * 2), mine, 3);
      torch::autograd::grad({a}, {mine.data}, {}, /*retain_graph=*/true, false,
                            /*allow_unused=*/true);
      a.backward({}, /*retain_graph=*/true);
      b.backward();
      a.backward();
    };
    const Examples all = examples(0, 6, at::kDouble);
    for (int rank = 0; rank < 2; ++rank) {
      Examples part = share_of(all, rank, 2);
      part.data = part.data.clone().requires_grad_();
      losses([&](const at::Tensor& x) { return alone->forward(x); }, part);
      if (rank == group.rank())
        losses([&](const at::Tensor& x) { return model.forward(x); }, part);
    }
    // A penalty alone leaves all other gradients unchanged.
    (net->first->weight.square().sum() * 0.5).backward();
    (alone->first->weight.square().sum() * 1.0).backward();
    const auto ours = net->parameters();
    const auto theirs = alone->parameters();
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::allclose(ours[i].grad() * 2, theirs[i].grad())) << i;
  });
}

TEST(DadParallel, AForwardThatLeadsNowhereCostsNothing) {
  run_threads(2, [&](const Group& group) {
    auto net = make_net(maker<PlainNetImpl>(true), at::kFloat, 1);
    DadParallel model(net, group,
                      {.mode = DadMode::kRankDad, .link = LinkModel{}});
    const Examples mine = share_of(examples(0, 6, at::kFloat), group.rank(), 2);
    part_of_loss(model.forward(mine.data), mine, 3).backward();
    const auto bytes = model.stats().bytes;
    for (int i = 0; i < 4; ++i) model.forward(mine.data);
    model.reset_stats();
    part_of_loss(model.forward(mine.data), mine, 3).backward();
    EXPECT_LE(model.stats().bytes, bytes + 32 * (12 + 20) * 4);
    EXPECT_THROW(model.forward(at::zeros({2, 3})), c10::Error);
    net->forward(mine.data);  // not watched
    part_of_loss(model.forward(mine.data), mine, 3).backward();
  });
}

TEST(DadParallel, RefusesWhatCannotBe) {
  run_threads(1, [](const Group& group) {
    auto net = std::make_shared<PlainNetImpl>(true);
    EXPECT_THROW(DadParallel(net, group, {.rank = 0}), UsageError);
    EXPECT_THROW(DadParallel(net, group, {.tolerance = 1}), UsageError);
    EXPECT_THROW(DadParallel(net, group, {.wire = at::kInt}), UsageError);
    EXPECT_THROW(DadParallel(net, group, {.is_two_way = true}), UsageError);
  });
}

TEST(DadParallel, NeedsAModule) {
  run_threads(1, [](const Group& group) {
    expect_throws<UsageError>([&] { DadParallelCore(nullptr, group, {}); },
                              {"DadParallel needs a module, got null"});
  });
}

// One line per parameter, in aligned columns.
TEST(DadParallel, DescribesItsRoutes) {
  run_threads(2, [](const Group& group) {
    auto net = make_net(maker<PlainNetImpl>(true), at::kFloat, 1);
    DadParallel model(net, group,
                      {.routes = {{"last.weight", Route::kGradient}},
                       .link = LinkModel{.ranks = 2}});
    EXPECT_EQ(model.describe_routes(), "");
    model.forward(examples(0, 4, at::kFloat).data);
    EXPECT_EQ(
        model.describe_routes(),
        "  first.weight  dad              mode dad\n"
        "  first.bias    with its weight  the sum of the deltas\n"
        "  last.weight   gradient         set by name\n"
        "  last.bias     gradient         same as its weight, last.weight\n");
  });
}

// The buckets of the old plan have released the exchange by then.
TEST(DadParallel, ANewPlanUsesTheSameExchange) {
  run_threads(2, [](const Group& group) {
    auto net = make_net(maker<PlainNetImpl>(true), at::kDouble, 1);
    DadParallel model(net, group,
                      {.routes = {{"first.weight", Route::kGradient}},
                       .link = LinkModel{.ranks = 2},
                       .exchange = make_plain_exchange()});
    for (const bool is_frozen : {false, true, false}) {
      net->last->weight.set_requires_grad(!is_frozen);
      net->last->bias.set_requires_grad(!is_frozen);
      forget_gradients(*net);
      const at::Tensor x = at::full({1, 12}, group.rank() + 1.0, at::kDouble);
      model.forward(x).sum().backward();
      check_same_bits(group, {{"gradient", net->first->weight.grad()}});
      EXPECT_EQ(net->last->weight.grad().defined(), !is_frozen);
    }
  });
}

}  // namespace
}  // namespace sheaf::parallel
