#include "sheaf/parallel/common/agreement.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

struct ConvAndLinearImpl : torch::nn::Module {
  ConvAndLinearImpl() {
    conv = register_module("conv", torch::nn::Conv2d(3, 4, 3));
    last = register_module("last", torch::nn::Linear(4, 2));
  }
  at::Tensor forward(const at::Tensor& x) { return last(conv(x).mean({2, 3})); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear last{nullptr};
};

using Change = std::function<void(ConvAndLinearImpl&)>;

// All ranks reject a module that rank 1 has changed, and report the reason.
template <template <class> class Parallel>
void expect_refused(const Change& change,
                    const std::vector<std::string>& words) {
  run_threads(3, [&](const Group& group) {
    auto net = std::make_shared<ConvAndLinearImpl>();
    if (group.rank() == 1) change(*net);
    try {
      Parallel<ConvAndLinearImpl> model(net, group);
      FAIL() << "rank " << group.rank() << " accepts it";
    } catch (const UsageError& error) {
      for (const std::string& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
            << word << " is not in: " << error.what();
    }
  });
}

void use_channels_last(ConvAndLinearImpl& net) {
  net.conv->weight.set_data(
      net.conv->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(Agreement, OrdersOfMemoryMustBeTheSame) {
  const std::vector<std::string> words{"rank 1 has conv.weight", "strides",
                                       "27, 1, 9, 3"};
  expect_refused<DataParallel>(use_channels_last, words);
  expect_refused<DadParallel>(use_channels_last, words);
}

TEST(Agreement, TheSameParametersMustRequireGradients) {
  const auto freeze = [](ConvAndLinearImpl& net) {
    net.last->weight.set_requires_grad(false);
  };
  const std::vector<std::string> words{"rank 1 has last.weight",
                                       "without gradient"};
  expect_refused<DataParallel>(freeze, words);
  expect_refused<DadParallel>(freeze, words);
}

// Memory orders are accepted if they are equal on all ranks, or if strides do
// not matter.
TEST(Agreement, OrdersThatAreTheSameAreAccepted) {
  run_threads(2, [&](const Group& group) {
    auto net = std::make_shared<ConvAndLinearImpl>();
    use_channels_last(*net);
    // An axis of one element may have any stride.
    if (group.rank() == 1)
      net->last->weight.set_data(at::empty_strided({2, 4}, {4, 1}).zero_());
    DataParallel model(net, group);
    model.forward(at::ones({1, 3, 5, 5}) * (1 + group.rank())).sum().backward();
    check_same_bits(group, {{"the gradient", net->conv->weight.grad()}});
  });
  run_threads(2, [&](const Group& group) {
    const at::Tensor plain = at::empty({3, 1, 4}).set_requires_grad(true);
    const at::Tensor odd =
        at::empty_strided({3, 1, 4}, {4, 99, 1}).set_requires_grad(true);
    check_same_shapes(group, {{"one", group.rank() == 1 ? odd : plain}});
  });
}

// Only gradients are exchanged in memory order.
TEST(Agreement, FrozenTensorsMayHaveAnyOrder) {
  run_threads(2, [&](const Group& group) {
    at::Tensor tensor = at::zeros({3, 4});
    if (group.rank() == 1) tensor = at::zeros({4, 3}).t();
    if (group.rank() == 0) tensor.copy_(at::arange(12).view({3, 4}));
    check_same_shapes(group, {{"one", tensor}});
    broadcast_tensors(group, {{"one", tensor}});
    EXPECT_TRUE(tensor.equal(at::arange(12).view({3, 4}).to(at::kFloat)));
  });
}

TEST(Agreement, OptionsMustBeTheSameOnAllRanks) {
  run_threads(2, [](const Group& group) {
    const bool is_second = group.rank() == 1;
    const auto net = std::make_shared<ConvAndLinearImpl>();
    expect_throws<UsageError>(
        [&] {
          DataParallel(net, group, {.find_unused_parameters = is_second});
        },
        {"DataParallel", "rank 1 has find_unused_parameters 1",
         "find_unused_parameters 0 on rank 0"});
    expect_throws<UsageError>(
        [&] {
          DadParallel(net, group,
                      {.mode = is_second ? DadMode::kRankDad : DadMode::kDad});
        },
        {"DadParallel", "rank 1 has mode rank-dad", "mode dad on rank 0"});
    expect_throws<UsageError>(
        [&] {
          DadParallel(net, group,
                      {.wire = is_second ? at::kBFloat16 : at::kHalf});
        },
        {"wire BFloat16", "wire Half"});
  });
}

// A text ends before those of the other ranks.
TEST(Agreement, LongTextsAreTruncated) {
  run_threads(2, [](const Group& group) {
    for (const std::size_t size : {0, 254, 255, 256, 300}) {
      const std::string mine(size, group.rank() == 0 ? 'a' : 'b');
      const auto all = share_texts(group, mine);
      const std::size_t left = std::min<std::size_t>(size, 255);
      EXPECT_EQ(all, (std::vector<std::string>{std::string(left, 'a'),
                                               std::string(left, 'b')}));
    }
  });
}

// A parameter without elements, alone in its bucket and together with others.
struct WithNothingImpl : torch::nn::Module {
  explicit WithNothingImpl(bool is_alone) {
    nothing = register_parameter("nothing", torch::zeros({0, 3}));
    // Another type, so that it has a separate bucket.
    weight = register_parameter(
        "weight", torch::ones({5, 3}, is_alone ? at::kDouble : at::kFloat));
  }
  at::Tensor forward(const at::Tensor& x) {
    return (x.mm(nothing.t()).sum() +
            (weight * x.to(weight.scalar_type())).sum());
  }
  at::Tensor nothing, weight;
};

TEST(EmptyParameter, IsExchangedByEachMode) {
  const std::function<std::unique_ptr<BucketExchange>()> exchanges[] = {
      [] { return make_plain_exchange(); },
      [] { return make_half_exchange(at::kHalf); },
      [] { return make_half_exchange(at::kBFloat16); },
      [] { return make_power_sgd_exchange({.rank = 1, .start_step = 0}); }};
  for (const bool is_alone : {false, true})
    for (const auto& make : exchanges)
      run_threads(2, [&](const Group& group) {
        auto net = std::make_shared<WithNothingImpl>(is_alone);
        DataParallel model(net, group, {.exchange = make()});
        for (int step = 0; step < 3; ++step) {
          net->zero_grad();
          model.forward(at::full({5, 3}, 1.0 + 2 * group.rank())).backward();
          EXPECT_EQ(net->nothing.grad().sizes(), at::IntArrayRef({0, 3}));
          EXPECT_TRUE(
              net->weight.grad().equal(at::full_like(net->weight, 2.0)));
        }
        model.check_weights();
      });
}

TEST(EmptyParameter, IsExchangedByDad) {
  run_threads(2, [&](const Group& group) {
    auto net = std::make_shared<WithNothingImpl>(true);
    DadParallel model(net, group, {.link = LinkModel{.ranks = 2}});
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      model.forward(at::full({5, 3}, 1.0 + 2 * group.rank())).backward();
      EXPECT_TRUE(net->weight.grad().equal(at::full_like(net->weight, 2.0)));
    }
  });
}

}  // namespace
}  // namespace sheaf::parallel
