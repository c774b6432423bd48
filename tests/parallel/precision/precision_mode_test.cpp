#include "sheaf/parallel/precision/precision_mode.hpp"

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/parallel/common/training.hpp"
#include "tests/parallel/precision/precision_cuda.hpp"
#include "tests/parallel/precision/precision_networks.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

// Operators reported to observers, preceded by the enclosing operators and "/".
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

TEST(PrecisionMode, ObserversSeeLayersAndTheirCasts) {
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
    // The operators called by a linear layer depend on libtorch's version.
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
  // Needed by traces to assign the nodes of backward() to operators.
  EXPECT_EQ(nodes.back(),
            static_cast<std::int64_t>(output.grad_fn()->sequence_nr()));
}

TEST(PrecisionMode, NothingIsLeftOnBehindAPass) {
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

TEST(PrecisionMode, PassesWithoutGradients) {
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

// y = x * x, with a backward that relies on f32.
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

TEST(PrecisionMode, FunctionsOfTheUserAreLeftAlone) {
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

TEST(PrecisionMode, ProductsWithinOperatorsAreFound) {
  Mlp net;
  MixedPrecision precision(*net, {{{"bmm#0", Precision::kBf16}}});
  const at::Tensor a = torch::randn({2, 3, 4}), b = torch::randn({2, 4, 5});
  const auto scope = precision.forward_scope();
  const at::Tensor first = torch::einsum("bij,bjk->bik", {a, b});
  EXPECT_EQ(first.scalar_type(), kLow);
  EXPECT_EQ(torch::einsum("bij,bjk->bik", {a, b}).scalar_type(), kWide);
}

// A backward() on several devices hands the keys of its thread to others, where
// there is no pass.
TEST(PrecisionMode, ThreadsThatInheritItsKeysComputeAsUsual) {
  Mlp net;
  MixedPrecision precision(*net, all_in(Precision::kBf16));
  const at::Tensor x = torch::randn({3, 12});
  const at::Tensor want = net->forward(x);
  const auto scope = precision.forward_scope();
  const at::ThreadLocalState keys;
  at::Tensor got;
  std::thread([&] {
    const at::ThreadLocalStateGuard guard(keys);
    got = net->forward(x);
  }).join();
  EXPECT_EQ(got.scalar_type(), kWide);
  EXPECT_TRUE(got.equal(want));
  EXPECT_EQ(net->forward(x).scalar_type(), kLow);
}

// A module within a module may have its own plan.
TEST(PrecisionMode, TheInnerPassApplies) {
  Mlp net, inner;
  const at::Tensor x = torch::randn({3, 12});
  MixedPrecision low_precision(*net, all_in(Precision::kBf16));
  MixedPrecision wide_precision(*inner, all_in(Precision::kF32));
  const auto outer_scope = low_precision.forward_scope();
  EXPECT_EQ(net->forward(x).scalar_type(), kLow);
  {
    const auto inner_scope = wide_precision.forward_scope();
    EXPECT_EQ(inner->forward(x).scalar_type(), kWide);
  }
  EXPECT_EQ(net->forward(x).scalar_type(), kLow);
}

// The weight may be either factor; a product without one has a number.
TEST(PrecisionMode, LayersAreKnownByTheirWeightsAndProductsByNumber) {
  torch::nn::Linear net(4, 4);
  const at::Tensor x = torch::randn({4, 4});
  PrecisionSetting setting{
      .names = LayerNames(*net),
      .plan = {{{"weight", Precision::kBf16}, {"mm#1", Precision::kBf16}}},
      .options = {},
      .is_unchecked = true};
  {
    const PrecisionPass pass(setting);
    EXPECT_EQ(torch::mm(net->weight, x).scalar_type(), kLow);
    EXPECT_EQ(torch::mm(x, net->weight.t()).scalar_type(), kLow);
    EXPECT_EQ(torch::mm(x, x).scalar_type(), kWide);
    EXPECT_EQ(torch::mm(x, x).scalar_type(), kLow);
  }
  EXPECT_EQ(setting.products, (std::map<std::string, int>{{"mm", 2}}));
  EXPECT_TRUE(setting.has_trained);
}

// Numbers of 64 bits are not cast to fewer.
TEST(PrecisionMode, DoublesStayDoubles) {
  Mlp net;
  MixedPrecision precision(*net, all_in(Precision::kBf16));
  const at::Tensor x = torch::randn({2, 2}, at::kDouble);
  const auto scope = precision.forward_scope();
  EXPECT_TRUE(torch::mm(x, x).equal(torch::matmul(x, x)));
  EXPECT_EQ(torch::mm(x, x).scalar_type(), at::kDouble);
}

TEST_F(Int8OnCuda, GroupsAreReportedOnceAndComputedInF16) {
  torch::nn::Sequential net(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).groups(8)),
      torch::nn::Conv2d(8, 8, 1));
  net->to(at::kCUDA);
  const at::Tensor x = torch::randn({4, 8, 6, 6}, at::kCUDA);
  const PrecisionPlan mixed{{{"0", Precision::kF16}}, Precision::kInt8};
  const auto f16 = results_under(net, mixed, x);
  MixedPrecision precision(*net, all_in(Precision::kInt8));
  testing::internal::CaptureStderr();
  for (int pass = 0; pass < 2; ++pass) {
    const auto scope = precision.forward_scope();
    EXPECT_TRUE(net->forward(x).equal(f16[0]));
  }
  const std::string told = testing::internal::GetCapturedStderr();
  const std::size_t first = told.find("int8 for the layer 0, a conv2d");
  EXPECT_NE(first, told.npos) << told;
  EXPECT_EQ(told.find("int8 for the layer", first + 1), told.npos) << told;
}

}  // namespace
}  // namespace sheaf::parallel
