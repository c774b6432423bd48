#include "sheaf/plan/predict/factor_layers.hpp"

#include <gtest/gtest.h>

namespace sheaf::plan {
namespace {

Slot called(const std::string& op, const std::string& layer, int input,
            std::int64_t out = 0, double weights = 0) {
  Slot slot;
  slot.op = op;
  slot.layer = layer;
  slot.out_shape = {8, out};
  slot.weight_elements = weights;
  if (input >= 0) slot.inputs = {{input, 0}};
  return slot;
}

// a (10 to 20) -> function -> b (20 to 5), for 8 rows.
StepProfile two_layers(const std::string& function) {
  StepProfile profile;
  profile.graph.slots = {called("aten::linear", "a", -1, 20, 200),
                         called(function, "", 0, 20),
                         called("aten::linear", "b", 1, 5, 100)};
  for (const std::int32_t slot : {0, 1, 2})
    for (const bool is_backward : {false, true})
      profile.parts.push_back({.slot = slot, .is_backward = is_backward});
  profile.model.parameters = {
      {"a.weight", 200, "a"}, {"a.bias", 20, "a"}, {"b.weight", 100, "b"}};
  return profile;
}

TEST(FactorLayers, HaveTheShapesOfTheirProducts) {
  const auto layers = factor_layers(two_layers("aten::relu"), {});
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].name, "a");
  EXPECT_EQ(layers[0].slots, std::vector<std::size_t>{0});
  EXPECT_EQ(layers[0].rows, 8);
  EXPECT_EQ(layers[0].in, 10);
  EXPECT_EQ(layers[0].out, 20);
  EXPECT_TRUE(layers[0].has_bias);
  EXPECT_EQ(layers[1].name, "b");
  EXPECT_EQ(layers[1].in, 20);
  EXPECT_EQ(layers[1].out, 5);
  EXPECT_FALSE(layers[1].has_bias);
  EXPECT_EQ(factor_layer_names(two_layers("aten::relu")),
            (std::vector<std::string>{"a", "b"}));
}

// Half of the backward work is the gradient of the input, if that needs one.
TEST(FactorLayers, InputDataNeedsNoGradient) {
  const auto layers = factor_layers(two_layers("aten::relu"), {});
  EXPECT_EQ(layers[0].gradient_part, std::vector<double>{1});
  EXPECT_EQ(layers[1].gradient_part, std::vector<double>{0.5});
}

TEST(FactorLayers, DeltasFollowThroughOneFunction) {
  for (const char* function :
       {"aten::relu", "aten::relu_", "aten::tanh", "aten::sigmoid"}) {
    const auto layers = factor_layers(two_layers(function), {});
    EXPECT_EQ(layers[0].above, 1) << function;
    EXPECT_EQ(layers[1].above, -1) << function;
  }
  EXPECT_EQ(factor_layers(two_layers("aten::gelu"), {})[0].above, -1);
}

TEST(FactorLayers, DeltasDoNotFollowWhereOthersUseAResult) {
  StepProfile profile = two_layers("aten::relu");
  profile.graph.slots.push_back(called("aten::relu", "", 0, 20));
  EXPECT_EQ(factor_layers(profile, {})[0].above, -1);
  profile = two_layers("aten::relu");
  profile.graph.slots.push_back(called("aten::sum", "", 1, 1));
  EXPECT_EQ(factor_layers(profile, {})[0].above, -1);
}

TEST(FactorLayers, ALayerThatIsCalledTwiceIsOne) {
  StepProfile profile = two_layers("aten::relu");
  profile.graph.slots.push_back(called("aten::linear", "b", 1, 5, 100));
  const auto layers = factor_layers(profile, {});
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[1].slots, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(layers[1].rows, 16);
  EXPECT_EQ(layers[0].above, -1);
}

TEST(FactorLayers, OtherOperatorsHaveNoFactors) {
  StepProfile profile;
  profile.graph.slots = {called("aten::conv2d", "a", -1, 20, 200),
                         called("aten::linear", "", 0, 20, 200),
                         called("aten::linear", "c", 0, 20, 0),
                         called("aten::linear", "d", 0, 0, 200)};
  EXPECT_TRUE(factor_layers(profile, {}).empty());
}

}  // namespace
}  // namespace sheaf::plan
