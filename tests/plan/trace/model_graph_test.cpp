#include "sheaf/plan/trace/model_graph.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sheaf/plan/graph/step_profile.hpp"
#include "tests/plan/trace/model_trace.hpp"

namespace sheaf::plan {
namespace {

// A node with a result of 10 x 100 elements, as all its inputs.
ModelNode graph_node(const std::string& op, const std::string& layer,
                     const std::vector<std::int32_t>& inputs) {
  ModelNode node;
  node.op = op;
  node.layer = layer;
  node.inputs = inputs;
  node.in_shapes.assign(inputs.size(), {10, 100});
  node.out_shapes = {Shape({10, 100})};
  node.type = Precision::kF32;
  return node;
}

ModelGraph graph_of_nodes(std::vector<ModelNode> nodes) {
  TracedModel model;
  model.nodes = std::move(nodes);
  return make_model_graph(model);
}

std::vector<std::string> slot_names(const ModelGraph& graph) {
  std::vector<std::string> names;
  for (const Slot& slot : graph.slots) names.push_back(slot.name);
  return names;
}

using Numbers = std::vector<std::int32_t>;
using Texts = std::vector<std::string>;

TEST(ModelGraph, HasSlotsWithoutCasts) {
  const auto profile = read_profile(
      ModelTrace(small_model(), uniform(Precision::kBf16), true).write());
  const auto& slots = profile.graph.slots;
  ASSERT_EQ(slots.size(), 6u);
  EXPECT_EQ(slots[0].name, "conv1");
  EXPECT_EQ(slots[1].name, "aten::relu#0");
  EXPECT_EQ(slots[3].inputs.size(), 2u);
  EXPECT_EQ(slots[4].type, Precision::kF32);
  EXPECT_TRUE(slots[4].has_cast);
  EXPECT_EQ(slots[5].depth, 3);  // along the longer path
  EXPECT_EQ(profile.graph.depth, 3);
  EXPECT_EQ(slots[5].weight_elements, 500000);
}

// The casts of both inputs of a product precede it.
TEST(ModelGraph, CastsBelongToTheSlotAfterThem) {
  const ModelGraph graph = graph_of_nodes(
      {graph_node("aten::relu", "", {-1}), graph_node("aten::tanh", "", {-1}),
       graph_node("aten::to", "p", {1}), graph_node("aten::_to_copy", "p", {0}),
       graph_node("aten::matmul", "p", {3, 2})});
  EXPECT_EQ(slot_names(graph), (Texts{"aten::relu#0", "aten::tanh#0", "p"}));
  EXPECT_EQ(graph.slot_of_node, (Numbers{0, 1, 2, 2, 2}));
  EXPECT_EQ(graph.cast_of_node, (Numbers{-1, -1, 1, 0, -1}));
  EXPECT_FALSE(graph.slots[0].has_cast);
  EXPECT_TRUE(graph.slots[2].has_cast);
  EXPECT_EQ(graph.slots[2].inputs,
            (std::vector<SlotInput>{{0, 1000}, {1, 1000}}));
}

// Casts change the order of arguments, but not of inputs.
TEST(ModelGraph, InputsAreSortedByProducerAndCountedOnce) {
  const ModelGraph graph = graph_of_nodes(
      {graph_node("aten::relu", "", {-1}), graph_node("aten::tanh", "", {-1}),
       graph_node("aten::add", "", {1, 0, 1, -1})});
  EXPECT_EQ(graph.slots[2].inputs,
            (std::vector<SlotInput>{{0, 1000}, {1, 1000}}));
  EXPECT_TRUE(graph.slots[0].inputs.empty());
}

TEST(ModelGraph, OperatorsWithoutALayerCastForThemselves) {
  const ModelGraph graph = graph_of_nodes(
      {graph_node("aten::conv2d", "a", {-1}), graph_node("aten::to", "", {0}),
       graph_node("aten::softmax", "", {1}),
       graph_node("aten::to", "", {2}),  // no operator follows
       graph_node("aten::linear", "b", {3})});
  EXPECT_EQ(slot_names(graph),
            (Texts{"a", "aten::softmax#0", "aten::to#0", "b"}));
  EXPECT_EQ(graph.slot_of_node, (Numbers{0, 1, 1, 2, 3}));
  EXPECT_EQ(graph.cast_of_node, (Numbers{-1, 0, -1, 0, -1}));
}

// A layer of several operators is one slot, named after the last.
TEST(ModelGraph, TheOperatorsOfALayerAreOneSlot) {
  const ModelGraph graph = graph_of_nodes(
      {graph_node("aten::conv2d", "a", {-1}), graph_node("aten::add", "a", {0}),
       graph_node("aten::relu", "", {1})});
  ASSERT_EQ(graph.slots.size(), 2u);
  EXPECT_EQ(graph.slots[0].op, "aten::add");
  EXPECT_TRUE(graph.slots[0].inputs.empty());
  EXPECT_EQ(graph.slots[1].inputs, (std::vector<SlotInput>{{0, 1000}}));
}

TEST(ModelGraph, ACalledLayerIsNumbered) {
  // The second call begins with its cast, the third is apart.
  const ModelGraph graph = graph_of_nodes(
      {graph_node("aten::to", "a", {-1}), graph_node("aten::linear", "a", {0}),
       graph_node("aten::to", "a", {1}), graph_node("aten::linear", "a", {2}),
       graph_node("aten::relu", "", {3}),
       graph_node("aten::linear", "a", {4})});
  EXPECT_EQ(slot_names(graph), (Texts{"a", "a#1", "aten::relu#0", "a#2"}));
  EXPECT_EQ(graph.slot_of_node, (Numbers{0, 0, 1, 1, 2, 3}));
  EXPECT_EQ(graph.slots[1].inputs, (std::vector<SlotInput>{{0, 1000}}));
}

TEST(ModelGraph, DepthCountsTheLayersOnTheLongestPath) {
  const ModelGraph graph =
      graph_of_nodes({graph_node("aten::conv2d", "a", {-1}),
                      graph_node("aten::conv2d", "b", {0}),
                      graph_node("aten::add", "", {0, 1}),
                      graph_node("aten::conv2d", "c", {-1})});
  Numbers depths;
  for (const Slot& slot : graph.slots) depths.push_back(slot.depth);
  EXPECT_EQ(depths, (Numbers{1, 2, 2, 1}));
  EXPECT_EQ(graph.depth, 2);
}

TEST(ModelGraph, WeightsAreTheLargestParametersOfLayers) {
  TracedModel model;
  model.nodes = {graph_node("aten::linear", "a", {-1}),
                 graph_node("aten::linear", "b", {0})};
  model.parameters = {{"a.bias", 5, "a"}, {"a.weight", 50, "a"}, {"c", 9, ""}};
  const ModelGraph graph = make_model_graph(model);
  EXPECT_EQ(graph.slots[0].weight_elements, 50);
  EXPECT_EQ(graph.slots[1].weight_elements, 0);
}

TEST(ModelGraph, IsWrittenForProgramsAndForGraphviz) {
  TracedModel model;
  model.nodes = {graph_node("aten::conv2d", "a", {-1}),
                 graph_node("aten::relu", "", {0})};
  model.parameters = {{"a.weight", 50, "a"}};
  const ModelGraph graph = make_model_graph(model);
  EXPECT_EQ(nlohmann::json::parse(json_of(graph)),
            nlohmann::json::parse(R"({"depth": 1, "operators": [
                {"name": "a", "op": "aten::conv2d", "inputs": [],
                 "out": [10, 100], "depth": 1, "layer": "a",
                 "weight_elements": 50.0},
                {"name": "aten::relu#0", "op": "aten::relu", "inputs": [0],
                 "out": [10, 100], "depth": 1}]})"));
  EXPECT_EQ(dot_of(graph),
            "digraph model {\n  node [shape=box, fontsize=10];\n"
            "  n0 [label=\"a\\n10x100\", style=bold];\n"
            "  n1 [label=\"aten::relu#0\\n10x100\"];\n"
            "  n0 -> n1;\n}\n");
}

}  // namespace
}  // namespace sheaf::plan
