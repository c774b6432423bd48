#include "sheaf/plan/graph/type_flow.hpp"

#include <gtest/gtest.h>

namespace sheaf::plan {
namespace {

using enum Precision;

Slot slot_of_type(const std::string& layer, const std::vector<int>& inputs,
                  std::optional<Precision> type = kF32) {
  Slot one;
  one.layer = layer;
  one.out_shape = {2, 3};
  one.type = type;
  for (const int input : inputs) one.inputs.push_back({input, 6});
  return one;
}

PrecisionPlan layers_in(std::map<std::string, Precision> layers) {
  PrecisionPlan plan;
  plan.layers = std::move(layers);
  return plan;
}

TEST(TypeFlow, ResultsAndSizesOfPrecisions) {
  EXPECT_EQ(result_of(kF32), kF32);
  EXPECT_EQ(result_of(kTf32), kF32);
  EXPECT_EQ(result_of(kBf16), kBf16);
  EXPECT_EQ(result_of(kF16), kF16);
  EXPECT_EQ(result_of(kInt8), kF16);
  EXPECT_EQ(bytes_of(kF32), 4);
  EXPECT_EQ(bytes_of(kTf32), 4);
  EXPECT_EQ(bytes_of(kBf16), 2);
  EXPECT_EQ(bytes_of(kF16), 2);
  EXPECT_EQ(bytes_of(kInt8), 1);
}

TEST(TypeFlow, IntegersAndScalarsDecideNothing) {
  EXPECT_TRUE(decides_type(slot_of_type("", {})));
  EXPECT_FALSE(decides_type(slot_of_type("", {}, std::nullopt)));
  Slot scalar = slot_of_type("", {});
  scalar.out_shape.clear();
  EXPECT_FALSE(decides_type(scalar));
}

// a (bf16) -> relu -> b (f16): the operator follows, the layer casts.
TEST(TypeFlow, OperatorsFollowAndLayersCast) {
  ModelGraph graph;
  graph.slots = {slot_of_type("a", {}), slot_of_type("", {0}),
                 slot_of_type("b", {1})};
  const auto types = flow_types(graph, {false, false, false},
                                layers_in({{"a", kBf16}, {"b", kF16}}));
  EXPECT_EQ(types[0].result, kBf16);
  EXPECT_EQ(types[1].result, kBf16);
  EXPECT_FALSE(types[1].casts[0].is_needed);
  EXPECT_FALSE(types[1].casts[0].is_promoted);
  EXPECT_EQ(types[2].result, kF16);
  EXPECT_TRUE(types[2].casts[0].is_needed);
  EXPECT_EQ(types[2].casts[0].from, kBf16);
  EXPECT_EQ(types[2].casts[0].to, kF16);
}

TEST(TypeFlow, DifferentInputsArePromoted) {
  ModelGraph graph;
  graph.slots = {slot_of_type("a", {}), slot_of_type("b", {}),
                 slot_of_type("", {0, 1})};
  const std::vector<bool> none(3, false);
  auto sum = flow_types(graph, none, layers_in({{"a", kBf16}, {"b", kF16}}))[2];
  EXPECT_EQ(sum.result, kF32);
  for (const auto& cast : sum.casts) {
    EXPECT_FALSE(cast.is_needed);
    EXPECT_TRUE(cast.is_promoted);
    EXPECT_EQ(cast.to, kF32);
  }
  sum = flow_types(graph, none, layers_in({{"a", kF16}, {"b", kInt8}}))[2];
  EXPECT_EQ(sum.result, kF16);
  EXPECT_FALSE(sum.casts[0].is_promoted);
}

TEST(TypeFlow, OperatorsInF32CastTheirInputs) {
  ModelGraph graph;
  graph.slots = {slot_of_type("a", {}), slot_of_type("", {0}),
                 slot_of_type("", {1})};
  const auto types =
      flow_types(graph, {false, true, false}, layers_in({{"a", kBf16}}));
  EXPECT_EQ(types[1].result, kF32);
  EXPECT_TRUE(types[1].casts[0].is_needed);
  EXPECT_EQ(types[2].result, kF32);
}

TEST(TypeFlow, OperatorsInF32AreKnownByACastInAnyTrace) {
  ModelGraph high, low;
  high.slots = {slot_of_type("a", {}), slot_of_type("", {0}),
                slot_of_type("b", {1})};
  low = high;
  low.slots[0].type = kBf16;
  low.slots[1].has_cast = true;
  low.slots[2].has_cast = true;  // a layer: its plan decides
  EXPECT_EQ(find_f32_only({&high, &low}),
            (std::vector<bool>{false, true, false}));
  low.slots[1].has_cast = false;
  EXPECT_EQ(find_f32_only({&high, &low}),
            (std::vector<bool>{false, false, false}));
}

}  // namespace
}  // namespace sheaf::plan
