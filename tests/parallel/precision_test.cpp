#include "sheaf/parallel/precision.hpp"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <mutex>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/local_group.hpp"
#include "sheaf/parallel/dad_parallel.hpp"
#include "sheaf/parallel/data_parallel.hpp"
#include "tests/parallel/precision_networks.hpp"
#include "tests/parallel/training.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
namespace F = torch::nn::functional;

constexpr auto kLow = at::kBFloat16;
constexpr auto kWide = at::kFloat;

PrecisionPlan all_in(Precision precision) { return {{}, precision}; }

at::Tensor low(const at::Tensor& tensor) { return tensor.to(kLow); }

// A layer in bf16, by hand.
at::Tensor low_linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  return F::linear(low(x), low(layer->weight), low(layer->bias));
}

// Old libtorchs' linear layers on more than two axes are a product, and a sum
// behind it, which takes what it is given.
at::Tensor low_product(torch::nn::Linear& layer, const at::Tensor& x) {
  const bool is_sum = layer(x).grad_fn()->name() == "AddBackward0";
  if (!is_sum) return low_linear(layer, x);
  at::Tensor y = torch::matmul(low(x), low(layer->weight.t()));
  y += layer->bias;
  return y;
}

TEST(Precision, ConvolutionsGoByThePlan) {
  torch::manual_seed(1);
  PlannedNet net;
  const at::Tensor x = torch::randn({4, 3, 8, 8});
  const PrecisionPlan plan{
      {{"conv1", Precision::kBf16}, {"last", Precision::kBf16}}};
  PlannedNet twin;
  for (std::size_t i = 0; i < net->parameters().size(); ++i)
    twin->parameters()[i].data().copy_(net->parameters()[i]);
  const auto planned = results_under(net, plan, x);
  const auto by_hand = results_of(twin, [&] {
    at::Tensor y = torch::conv2d(low(x), low(twin->conv1->weight),
                                 low(twin->conv1->bias), 1, 1);
    y = torch::relu(twin->norm(y));
    EXPECT_EQ(y.scalar_type(), kLow);
    y = torch::relu(torch::conv2d(y.to(kWide), twin->conv2->weight, {}, 2));
    return low_linear(twin->last, y.flatten(1));
  });
  EXPECT_TRUE(has_same_bits(planned, by_hand));
  EXPECT_EQ(planned[0].scalar_type(), kLow);
  for (std::size_t i = 1; i < planned.size(); ++i)
    EXPECT_EQ(planned[i].scalar_type(), kWide);
  EXPECT_TRUE(net->norm->running_mean.equal(twin->norm->running_mean));
}

// Old oneDNNs crash on new processors with layers large enough for tiles.
TEST(Precision, LargeLayersInBf16) {
  torch::manual_seed(10);
  torch::nn::Sequential net(torch::nn::Conv2d(64, 64, 3), torch::nn::ReLU(),
                            torch::nn::Conv2d(64, 32, 3), torch::nn::Flatten(),
                            torch::nn::Linear(32 * 4 * 4, 128));
  const at::Tensor x = torch::randn({8, 64, 8, 8});
  const auto planned = results_under(net, all_in(Precision::kBf16), x);
  const auto exact = results_of(net, [&] { return net->forward(x); });
  EXPECT_LT((planned[0].to(kWide) - exact[0]).norm().item<double>(),
            0.02 * exact[0].norm().item<double>());
}

TEST(Precision, ProductsOfActivationsAreCounted) {
  torch::manual_seed(2);
  Attention net;
  const at::Tensor x = torch::randn({2, 7, 12});
  const PrecisionPlan plan{{{"query", Precision::kBf16},
                            {"value", Precision::kBf16},
                            {"matmul#1", Precision::kBf16}}};
  const auto planned = results_under(net, plan, x);
  const auto by_hand = results_of(net, [&] {
    const auto scores = torch::matmul(low_product(net->query, x).to(kWide),
                                      net->key(x).transpose(1, 2));
    const auto weights = torch::softmax(scores, -1);
    const auto y = torch::matmul(low(weights), low_product(net->value, x)) + x;
    return net->norm(y);
  });
  EXPECT_TRUE(has_same_bits(planned, by_hand));
  // Each pass counts from 0.
  EXPECT_TRUE(has_same_bits(planned, results_under(net, plan, x)));
}

TEST(Precision, WhatIsSummedIsSummedInF32) {
  torch::manual_seed(3);
  Attention net;
  const at::Tensor x = torch::randn({2, 7, 12});
  const auto planned = results_under(net, all_in(Precision::kBf16), x);
  EXPECT_EQ(planned[0].scalar_type(), kWide);  // LayerNorm's
  const auto by_hand = results_of(net, [&] {
    const auto scores = torch::matmul(low_product(net->query, x),
                                      low_product(net->key, x).transpose(1, 2));
    const auto weights = torch::softmax(scores.to(kWide), -1);
    return net->norm(torch::matmul(low(weights), low_product(net->value, x)) +
                     x);
  });
  EXPECT_TRUE(has_same_bits(planned, by_hand));
}

TEST(Precision, AllF32IsAsWithoutAPlan) {
  torch::manual_seed(4);
  PlannedNet net;
  Attention attention;
  const at::Tensor images = torch::randn({4, 3, 8, 8});
  const at::Tensor words = torch::randn({2, 7, 12});
  const auto f32 = all_in(Precision::kF32);
  EXPECT_TRUE(
      has_same_bits(results_under(net, f32, images),
                    results_of(net, [&] { return net->forward(images); })));
  EXPECT_TRUE(has_same_bits(
      results_under(attention, f32, words),
      results_of(attention, [&] { return attention->forward(words); })));
}

TEST(Precision, NothingIsLeftOnBehindAPass) {
  Mlp net;
  const at::Tensor x = torch::randn({3, 12});
  MixedPrecision precision(*net, all_in(Precision::kBf16));
  { const auto scope = precision.forward_scope(); }
  EXPECT_EQ(net->forward(x).scalar_type(), kWide);
  EXPECT_TRUE(at::isRecordFunctionEnabled());
  try {
    const auto scope = precision.forward_scope();
    net->forward(torch::randn({3, 5}));
    ADD_FAILURE() << "5 columns went through 12 rows";
  } catch (const c10::Error&) {
  }
  EXPECT_EQ(net->forward(x).scalar_type(), kWide);
}

TEST(Precision, PassesWithoutGradients) {
  torch::manual_seed(5);
  Mlp net;
  const at::Tensor x = torch::randn({3, 12});
  MixedPrecision precision(*net, all_in(Precision::kBf16));
  const torch::NoGradGuard no_grad;
  const auto scope = precision.forward_scope();
  const at::Tensor y = net->forward(x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(y.scalar_type(), kLow);
  const c10::InferenceMode inference;
  EXPECT_TRUE(net->forward(x).equal(y));
}

struct SharedImpl : torch::nn::Module {
  SharedImpl() {
    words = register_module("words", torch::nn::Embedding(10, 6));
    inner = register_module("inner", torch::nn::Linear(6, 6));
    scores = register_parameter("scores", torch::randn({4, 6}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = inner(torch::relu(inner(words(x))));
    return torch::cat({torch::matmul(y, words->weight.t()),
                       torch::matmul(y, scores.narrow(0, 1, 2).t())},
                      1);
  }
  torch::nn::Embedding words{nullptr};
  torch::nn::Linear inner{nullptr};
  at::Tensor scores;
};
TORCH_MODULE(Shared);

TEST(Precision, WeightsAreKnownByWhereTheyAreUsed) {
  torch::manual_seed(6);
  Shared net;
  const at::Tensor x = torch::tensor({1, 4, 9, 0});
  const PrecisionPlan plan{{{"inner", Precision::kBf16},
                            {"words", Precision::kBf16},
                            {"scores", Precision::kBf16}}};
  const auto planned = results_under(net, plan, x);
  const auto by_hand = results_of(net, [&] {
    const at::Tensor once = low_linear(net->inner, net->words(x));
    const at::Tensor y = low_linear(net->inner, torch::relu(once));
    return torch::cat({torch::matmul(y, low(net->words->weight.t())),
                       torch::matmul(y, low(net->scores.narrow(0, 1, 2).t()))},
                      1);
  });
  EXPECT_TRUE(has_same_bits(planned, by_hand));
}

TEST(Precision, NamesOfLayers) {
  EXPECT_EQ(layers_of(*PlannedNet()),
            (std::vector<std::string>{"conv1", "conv2", "last"}));
  EXPECT_EQ(layers_of(*Shared()),
            (std::vector<std::string>{"scores", "inner"}));
  EXPECT_EQ(layers_of(*torch::nn::Linear(2, 2)),
            (std::vector<std::string>{"weight"}));
}

// The same weight in two modules.
struct ScoresImpl : torch::nn::Module {
  explicit ScoresImpl(const at::Tensor& given) {
    weight = register_parameter("weight", given);
  }
  at::Tensor weight;
};

struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    words = register_module("words", torch::nn::Embedding(10, 6));
    scores =
        register_module("scores", std::make_shared<ScoresImpl>(words->weight));
    again =
        register_module("again", std::make_shared<ScoresImpl>(words->weight));
  }
  torch::nn::Embedding words{nullptr};
  std::shared_ptr<ScoresImpl> scores, again;
};

TEST(Precision, SharedWeightsHaveOneName) {
  TiedImpl net;
  EXPECT_EQ(layers_of(net), (std::vector<std::string>{"scores"}));
  for (const char* name : {"words", "again"})
    expect_throws<UsageError>(
        [&] {
          MixedPrecision(net, PrecisionPlan{{{name, Precision::kBf16}}});
        },
        {"shares its weight with 'scores'"});
  MixedPrecision precision(net, {{{"scores", Precision::kBf16}}});
  const auto scope = precision.forward_scope();
  EXPECT_EQ(
      torch::matmul(torch::ones({2, 6}), net.again->weight.t()).scalar_type(),
      kLow);
}

TEST(Precision, UnknownLayersAreErrors) {
  PlannedNet net;
  expect_throws<UsageError>(
      [&] {
        MixedPrecision(*net, PrecisionPlan{{{"conv3", Precision::kBf16}}});
      },
      {"'conv3'", "near are conv1, conv2, last, of 3 layers"});
  for (const char* name : {"matmul#", "matmul#x", "softmax#0", "norm", ""})
    expect_throws<UsageError>(
        [&] {
          MixedPrecision(*net, PrecisionPlan{{{name, Precision::kBf16}}});
        },
        {name});
  MixedPrecision(*net, PrecisionPlan{{{"bmm#12", Precision::kBf16}}});
}

TEST(Precision, WhatADeviceHasNotIsAnError) {
  PlannedNet net;
  for (const auto precision :
       {Precision::kTf32, Precision::kF16, Precision::kInt8}) {
    expect_throws<UsageError>(
        [&] {
          MixedPrecision(*net, PrecisionPlan{{{"conv1", precision}}});
        },
        {"the layer 'conv1': a CPU computes layers in f32 and bf16"});
    EXPECT_THROW(MixedPrecision(*net, all_in(precision)), UsageError);
  }
  net->to(at::kDouble);
  expect_throws<UsageError>(
      [&] { MixedPrecision(*net, all_in(Precision::kBf16)); },
      {"parameters in f32"});
}

// Where libtorch has no bf16, and where it is wrong.
TEST(Precision, WhatLibtorchCannotDoIsDoneInF32) {
  torch::manual_seed(7);
  torch::nn::Sequential net(
      torch::nn::ConvTranspose2d(
          torch::nn::ConvTranspose2dOptions(3, 4, 3).stride(2)),
      torch::nn::Conv2d(4, 4, 3), torch::nn::Mish(), torch::nn::ReLU6(),
      torch::nn::Conv2d(4, 2, 3));
  const at::Tensor x = torch::randn({2, 3, 6, 6});
  const auto planned = results_under(net, all_in(Precision::kBf16), x);
  const auto exact = results_of(net, [&] { return net->forward(x); });
  EXPECT_EQ(planned[0].scalar_type(), kLow);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const at::Tensor difference = planned[i].to(kWide) - exact[i];
    // Three layers of bf16, 8 bits each, are far from another function.
    EXPECT_LT(difference.norm().item<double>(),
              0.05 * exact[i].norm().item<double>())
        << i;
  }
}

// y = x * x, with a backward that counts on f32.
struct Square : torch::autograd::Function<Square> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x) {
    context->save_for_backward({x});
    return torch::matmul(x, x);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {torch::matmul(gradients[0], x.t()) +
            torch::matmul(x.t(), gradients[0])};
  }
};

TEST(Precision, FunctionsOfTheUserAreLeftAlone) {
  Mlp net;
  MixedPrecision precision(*net, all_in(Precision::kBf16));
  const at::Tensor x = torch::randn({4, 4});
  const auto scope = precision.forward_scope();
  EXPECT_TRUE(Square::apply(x).equal(Square::apply(x)));
  EXPECT_EQ(Square::apply(x).scalar_type(), kWide);
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(torch::matmul(x, low(x)).scalar_type(), kWide);
  const at::AutoGradMode gradients(true);
  EXPECT_EQ(torch::matmul(x, x).scalar_type(), kLow);
}

TEST(Precision, ProductsWithinOperatorsAreFound) {
  Mlp net;
  MixedPrecision precision(*net, {{{"bmm#0", Precision::kBf16}}});
  const at::Tensor a = torch::randn({2, 3, 4}), b = torch::randn({2, 4, 5});
  const auto scope = precision.forward_scope();
  const at::Tensor first = torch::einsum("bij,bjk->bik", {a, b});
  EXPECT_EQ(first.scalar_type(), kLow);
  EXPECT_EQ(torch::einsum("bij,bjk->bik", {a, b}).scalar_type(), kWide);
}

// Operators that observers were told of, with those around them before "/".
struct Seen {
  std::vector<std::string> names;
  std::vector<std::int64_t> nodes;  // sequence numbers
  std::vector<std::string> around;
};
thread_local Seen* seen = nullptr;
struct OpenOperator : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& call) {
  if (!seen) return nullptr;
  std::string name;
  for (const std::string& one : seen->around) name += one + "/";
  seen->names.push_back(name + call.name());
  seen->nodes.push_back(call.seqNr());
  seen->around.push_back(call.name());
  return std::make_unique<OpenOperator>();
}

void leave(const at::RecordFunction&, at::ObserverContext* context) {
  if (seen && context) seen->around.pop_back();
}

TEST(Precision, ObserversSeeLayersAndTheirCasts) {
  Mlp net;
  const at::Tensor x = torch::randn({3, 12});
  MixedPrecision precision(*net, {{{"second", Precision::kBf16}}});
  Seen operators;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(see, leave));
  seen = &operators;
  at::Tensor output;
  {
    const auto scope = precision.forward_scope();
    output = net->forward(x);
  }
  seen = nullptr;
  at::removeCallback(handle);
  std::vector<std::string> outer;
  std::vector<std::int64_t> nodes;
  for (std::size_t i = 0; i < operators.names.size(); ++i) {
    std::string name = operators.names[i];
    const bool is_in_layer = name.rfind("sheaf::layer", 0) == 0;
    const auto slashes = std::count(name.begin(), name.end(), '/');
    if (slashes > (is_in_layer ? 1 : 0) || name == "aten::t") continue;
    // What a linear layer calls depends on libtorch's version.
    const std::size_t linear = name.find("aten::linear");
    if (linear != std::string::npos) name.replace(linear, 12, "aten::addmm");
    outer.push_back(name);
    nodes.push_back(operators.nodes[i]);
  }
  const std::vector<std::string> wanted{"aten::flatten",
                                        "sheaf::layer first f32",
                                        "sheaf::layer first f32/aten::addmm",
                                        "aten::tanh",
                                        "sheaf::layer second bf16",
                                        "sheaf::layer second bf16/aten::to",
                                        "sheaf::layer second bf16/aten::to",
                                        "sheaf::layer second bf16/aten::to",
                                        "sheaf::layer second bf16/aten::addmm",
                                        "aten::relu",
                                        "sheaf::layer last f32",
                                        "sheaf::layer last f32/aten::to",
                                        "sheaf::layer last f32/aten::addmm"};
  EXPECT_EQ(outer, wanted);
  // So that traces can tell which node of backward() is whose.
  EXPECT_EQ(nodes.back(),
            static_cast<std::int64_t>(output.grad_fn()->sequence_nr()));
}

TEST(Precision, DataParallelRanksGoByThePlan) {
  const PrecisionPlan plan{
      {{"first", Precision::kBf16}, {"last", Precision::kBf16}}};
  std::mutex mutex;  // torch's default generator is one for all threads
  std::vector<std::vector<at::Tensor>> gradients(3);
  const auto train = [&](const comm::Group& group, auto& model, Mlp& net) {
    MixedPrecision precision(*net, plan);
    const Examples mine =
        share_of(examples(0, 12, kWide), group.rank(), group.size());
    at::Tensor loss;
    {
      const auto scope = precision.forward_scope();
      loss = part_of_loss(model.forward(mine.data), mine, 12) * group.size();
    }
    loss.backward();
    Tensors result;
    for (const auto& parameter : net->parameters())
      result.push_back(parameter.grad().clone());
    return result;
  };
  const auto make = [&] {
    const std::lock_guard lock(mutex);
    torch::manual_seed(8);
    return Mlp();
  };
  const auto both = [&](auto tag) {
    using Wrapper = typename decltype(tag)::type;
    for (const int ranks : {1, 2})
      comm::run_threads(ranks, [&](const comm::Group& group) {
        Mlp net = make();
        Wrapper model(net, group);
        auto result = train(group, model, net);
        const std::lock_guard lock(mutex);
        gradients[static_cast<std::size_t>(ranks - 1 + group.rank())] = result;
      });
    EXPECT_TRUE(has_same_bits(gradients[1], gradients[2]));
    // Sums of bf16 products over halves of the batch: 8 bits.
    EXPECT_LT(distance(gradients[0], gradients[1]), 0.02);
  };
  both(std::type_identity<DataParallel<MlpImpl>>());
  both(std::type_identity<DadParallel<MlpImpl>>());
}

double train(const PrecisionPlan* plan) {
  torch::manual_seed(9);
  Mlp net;
  std::optional<MixedPrecision> precision;
  if (plan) precision.emplace(*net, *plan);
  torch::optim::SGD optimizer(net->parameters(), 0.3);
  double last = 0;
  for (int step = 0; step < 300; ++step) {
    const Examples all = examples(step % 4, 16, kWide);
    optimizer.zero_grad();
    at::Tensor loss;
    {
      std::optional<MixedPrecision::Scope> scope;
      if (plan) scope.emplace(*precision);
      loss = part_of_loss(net->forward(all.data), all, 16);
    }
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

TEST(Precision, TrainingInBf16LearnsAsWell) {
  const auto plan = all_in(Precision::kBf16);
  const double exact = train(nullptr);
  EXPECT_LT(exact, 0.05);
  EXPECT_LT(train(&plan), 0.06);
}

}  // namespace
}  // namespace sheaf::parallel
