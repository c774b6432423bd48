#include "sheaf/parallel/precision/precision_rules.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace sheaf::parallel {
namespace {

using Places = std::vector<std::size_t>;

c10::OperatorHandle operator_of(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

const OperatorRule& rule_for(const char* name, const char* overload = "") {
  return rule_of(operator_of(name, overload));
}

TEST(PrecisionRules, ProductsHaveFactorsAndWhatIsAdded) {
  const OperatorRule& conv = rule_for("aten::conv2d");
  EXPECT_EQ(conv.kind, OperatorKind::kProduct);
  EXPECT_EQ(conv.label, "conv2d");
  EXPECT_EQ(conv.factors, (Places{0, 1}));
  EXPECT_EQ(conv.added, Places{2});
  const OperatorRule& addmm = rule_for("aten::addmm");
  EXPECT_EQ(addmm.kind, OperatorKind::kProduct);
  EXPECT_EQ(addmm.factors, (Places{1, 2}));
  EXPECT_EQ(addmm.added, Places{0});
  const OperatorRule& matmul = rule_for("aten::matmul");
  EXPECT_EQ(matmul.factors, (Places{0, 1}));
  EXPECT_TRUE(matmul.added.empty());
}

TEST(PrecisionRules, SumsOfManyNumbersAreExact) {
  EXPECT_EQ(rule_for("aten::softmax", "int").kind, OperatorKind::kExact);
  EXPECT_EQ(rule_for("aten::layer_norm").kind, OperatorKind::kExact);
  EXPECT_EQ(rule_for("aten::mse_loss").kind, OperatorKind::kExact);
  EXPECT_EQ(rule_for("aten::lstm", "input").kind, OperatorKind::kExact);
}

TEST(PrecisionRules, OtherOperatorsArePlain) {
  for (const char* name : {"aten::relu", "aten::tanh", "aten::flatten"}) {
    const char* overload =
        name == std::string("aten::flatten") ? "using_ints" : "";
    const OperatorRule& rule = rule_for(name, overload);
    EXPECT_EQ(rule.kind, OperatorKind::kPlain) << name;
    EXPECT_FALSE(rule.is_exact_on_cpu) << name;
  }
  EXPECT_TRUE(rule_for("aten::hardtanh").is_exact_on_cpu);
  EXPECT_TRUE(rule_for("aten::relu6").is_exact_on_cpu);
}

// Results in an existing tensor have its type.
TEST(PrecisionRules, OperatorsThatWriteArePlain) {
  EXPECT_EQ(rule_for("aten::addmm_").kind, OperatorKind::kPlain);
  const OperatorRule& out = rule_for("aten::mm", "out");
  EXPECT_EQ(out.kind, OperatorKind::kPlain);
  EXPECT_TRUE(out.factors.empty());
}

TEST(PrecisionRules, OperatorsThatContainProductsAreOpen) {
  EXPECT_EQ(rule_for("aten::einsum").kind, OperatorKind::kOpen);
  EXPECT_EQ(rule_for("aten::tensordot").kind, OperatorKind::kOpen);
}

TEST(PrecisionRules, AreTheSameObjectEachTime) {
  EXPECT_EQ(&rule_for("aten::mm"), &rule_for("aten::mm"));
  EXPECT_NE(&rule_for("aten::mm"), &rule_for("aten::mm", "out"));
}

TEST(PrecisionRules, LabelsOfProductsAreKnown) {
  for (const char* label : {"conv2d", "matmul", "bmm", "baddbmm", "linear"})
    EXPECT_TRUE(is_product(label)) << label;
  for (const char* label : {"softmax", "relu", "", "aten::mm"})
    EXPECT_FALSE(is_product(label)) << label;
}

TEST(PrecisionRules, FloatsOfUpTo32BitsAreCastable) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16})
    EXPECT_TRUE(is_castable(torch::ones({1}, type)));
  for (const auto type : {at::kDouble, at::kLong, at::kBool})
    EXPECT_FALSE(is_castable(torch::ones({1}, type)));
  EXPECT_FALSE(is_castable({}));
}

TEST(PrecisionRules, ArgumentsAreCastIfNeeded) {
  const at::Tensor x = torch::ones({2});
  c10::IValue value = x;
  cast_argument(value, at::kFloat);
  EXPECT_TRUE(value.toTensor().is_same(x));
  cast_argument(value, at::kBFloat16);
  EXPECT_EQ(value.toTensor().scalar_type(), at::kBFloat16);
  value = torch::ones({2}, at::kLong);
  cast_argument(value, at::kBFloat16);
  EXPECT_EQ(value.toTensor().scalar_type(), at::kLong);
  value = 3;
  cast_argument(value, at::kBFloat16);
  EXPECT_EQ(value.toInt(), 3);
  value = c10::IValue();  // an optional argument, such as a missing bias
  cast_argument(value, at::kBFloat16);
  EXPECT_TRUE(value.isNone());
}

TEST(PrecisionRules, NarrowArgumentsAreCastToF32) {
  const at::Tensor low = torch::ones({2}, at::kHalf);
  const at::Tensor whole = torch::ones({2}, at::kLong);
  std::vector<c10::IValue> arguments{
      whole, low, 2.5, std::vector<at::Tensor>{whole, low.to(at::kBFloat16)}};
  EXPECT_TRUE(has_low(arguments));
  cast_low_to_f32(arguments);
  EXPECT_FALSE(has_low(arguments));
  EXPECT_TRUE(arguments[0].toTensor().is_same(whole));
  EXPECT_EQ(arguments[1].toTensor().scalar_type(), at::kFloat);
  EXPECT_EQ(arguments[2].toDouble(), 2.5);
  const auto list = arguments[3].toTensorVector();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0].is_same(whole));
  EXPECT_EQ(list[1].scalar_type(), at::kFloat);
}

TEST(PrecisionRules, ListsMayHaveNarrowArguments) {
  EXPECT_FALSE(has_low({c10::IValue(std::vector<at::Tensor>{torch::ones(1)})}));
  EXPECT_TRUE(has_low({c10::IValue(std::vector<at::Tensor>{
      torch::ones({1}), torch::ones({1}, at::kBFloat16)})}));
}

// The value below the arguments belongs to the caller.
at::Tensor called(const char* name, const std::vector<at::Tensor>& arguments) {
  torch::jit::Stack stack{42};
  stack.insert(stack.end(), arguments.begin(), arguments.end());
  call_with_what_is_there(operator_of(name), stack);
  EXPECT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack[0].toInt(), 42);
  return stack.back().toTensor();
}

TEST(PrecisionRules, KernelsThatExistAreUsed) {
  const at::Tensor x = torch::ones({2, 2}, at::kBFloat16);
  EXPECT_EQ(called("aten::mm", {x, x}).scalar_type(), at::kBFloat16);
  EXPECT_EQ(called("aten::relu", {x.to(at::kFloat)}).scalar_type(), at::kFloat);
}

// libtorch inverts no matrices of 16-bit numbers. The second call knows it.
TEST(PrecisionRules, KernelsThatAreMissingAreReplacedByF32) {
  const at::Tensor x = torch::eye(3) * 2;
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (int time = 0; time < 2; ++time) {
      const at::Tensor inverse = called("aten::linalg_inv", {x.to(type)});
      EXPECT_EQ(inverse.scalar_type(), at::kFloat);
      EXPECT_TRUE(inverse.equal(torch::eye(3) / 2));
    }
}

// The error is that of the call, and later calls use the kernel.
TEST(PrecisionRules, OtherErrorsAreThoseOfTheCall) {
  const at::Tensor x = torch::ones({2, 3}, at::kBFloat16);
  EXPECT_THROW(called("aten::mm", {x, x}), c10::Error);
  EXPECT_EQ(called("aten::mm", {x, x.t()}).scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace sheaf::parallel
