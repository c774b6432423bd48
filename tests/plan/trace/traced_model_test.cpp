#include "sheaf/plan/trace/traced_model.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

TEST(TracedModel, HasEverythingThatIsRecorded) {
  const TracedModel model = parse_model(R"({
      "version": 1, "model": "net", "batch": 32, "device": "cuda",
      "precision": "bf16", "busy_cores": 2.5, "loader_workers": 3,
      "parameters": [{"name": "fc.weight", "elements": 20, "layer": "fc"},
                     {"name": "scale", "elements": 1}],
      "optimizer": {"state_bytes": 160},
      "nodes": [{"op": "aten::linear", "layer": "fc", "inputs": [-1],
                 "in": [[8, 4], [5, 4]], "out": [[8, 5]], "type": "bf16"},
                {"op": "aten::relu", "inputs": [0]}],
      "memory": {"before": 1000, "peak": {"forward": 2000, "rest": 1500}}})",
                                        "trace.json");
  EXPECT_EQ(model.name, "net");
  EXPECT_EQ(model.batch, 32);
  EXPECT_EQ(model.device, "cuda");
  EXPECT_EQ(model.precision, Precision::kBf16);
  EXPECT_TRUE(model.is_uniform);
  EXPECT_EQ(model.busy_cores, 2.5);
  EXPECT_EQ(model.loader_workers, 3);
  ASSERT_EQ(model.parameters.size(), 2u);
  EXPECT_EQ(model.parameters[0].name, "fc.weight");
  EXPECT_EQ(model.parameters[0].elements, 20);
  EXPECT_EQ(model.parameters[0].layer, "fc");
  EXPECT_EQ(model.parameters[1].layer, "");
  EXPECT_EQ(model.optimizer_bytes, 160);
  ASSERT_EQ(model.nodes.size(), 2u);
  const ModelNode& fc = model.nodes[0];
  EXPECT_EQ(fc.op, "aten::linear");
  EXPECT_EQ(fc.layer, "fc");
  EXPECT_EQ(fc.inputs, std::vector<std::int32_t>{-1});
  EXPECT_EQ(fc.in_shapes, (std::vector<Shape>{{8, 4}, {5, 4}}));
  EXPECT_EQ(fc.out_shapes, std::vector<Shape>{Shape({8, 5})});
  EXPECT_EQ(fc.type, Precision::kBf16);
  EXPECT_EQ(model.nodes[1].inputs, std::vector<std::int32_t>{0});
  EXPECT_EQ(model.bytes_before, 1000);
  EXPECT_EQ(model.peak, (std::map<std::string, std::int64_t>{{"forward", 2000},
                                                             {"rest", 1500}}));
}

TEST(TracedModel, HasDefaultsForWhatIsNotRecorded) {
  const TracedModel model =
      parse_model(R"({"nodes": [{"op": "aten::relu"}]})", "t");
  EXPECT_EQ(model.batch, 0);
  EXPECT_EQ(model.device, "cpu");
  EXPECT_EQ(model.precision, Precision::kF32);
  EXPECT_TRUE(model.is_uniform);
  EXPECT_EQ(model.busy_cores, 1);
  EXPECT_EQ(model.loader_workers, 1);
  EXPECT_EQ(model.bytes_before, 0);
  EXPECT_TRUE(model.peak.empty());
  EXPECT_EQ(model.nodes[0].layer, "");
  EXPECT_TRUE(model.nodes[0].inputs.empty());
  EXPECT_EQ(model.nodes[0].type, std::nullopt);
}

TEST(TracedModel, OfARunWithAPlanIsNotUniform) {
  EXPECT_FALSE(
      parse_model(R"({"precision": "plan", "nodes": []})", "t").is_uniform);
}

// Integers and f64 do not take part in precisions.
TEST(TracedModel, TypesAreThoseThatLayersCanOutput) {
  const auto type_of = [](const std::string& text) {
    return parse_model(R"({"nodes": [{"op": "x", "type": ")" + text + R"("}]})",
                       "t")
        .nodes[0]
        .type;
  };
  EXPECT_EQ(type_of("f32"), Precision::kF32);
  EXPECT_EQ(type_of("bf16"), Precision::kBf16);
  EXPECT_EQ(type_of("f16"), Precision::kF16);
  for (const char* other : {"f64", "i64", "int8", "tf32", ""})
    EXPECT_EQ(type_of(other), std::nullopt) << other;
}

TEST(TracedModel, StatisticsAreThoseOfLayersThatHaveThem) {
  const TracedModel model = parse_model(R"({"nodes": [], "layers": {
      "a": {"statistics": {
        "input": {"elements": 1, "square": 2, "largest": 3},
        "weight": {"elements": 4}, "output": {"square": 5},
        "weight_gradient": {"largest": 6},
        "output_gradient": {"elements": 7}, "curvature": 8.5}},
      "b": {}}})",
                                        "t");
  ASSERT_EQ(model.statistics.size(), 1u);
  const LayerStatistics& a = model.statistics.at("a");
  EXPECT_EQ(a.input.elements, 1);
  EXPECT_EQ(a.input.square, 2);
  EXPECT_EQ(a.input.largest, 3);
  EXPECT_EQ(a.weight.elements, 4);
  EXPECT_EQ(a.weight.square, 0);
  EXPECT_EQ(a.output.square, 5);
  EXPECT_EQ(a.weight_gradient.largest, 6);
  EXPECT_EQ(a.output_gradient.elements, 7);
  EXPECT_EQ(a.curvature, 8.5);
}

TEST(TracedModel, DamageIsReportedWithTheFileAndTheMember) {
  const auto is_reported = [](const std::string& text,
                              const std::string& part) {
    expect_throws<IoError>(
        [&] { parse_model(text, "trace.json"); },
        {"trace.json: its model description", part, "record it again"});
  };
  is_reported("{", "description:1: invalid JSON");
  is_reported("{}", "nodes");
  is_reported(R"({"nodes": [{}]})", "op");
  is_reported(R"({"nodes": [], "parameters": [{"name": "a"}]})", "elements");
  is_reported(R"({"nodes": [], "parameters": [{"elements": 3}]})", "name");
  is_reported(R"({"nodes": [], "batch": "many"})", "number");
  is_reported(R"({"nodes": [], "precision": "f8"})", "\"f8\"");
  is_reported(R"({"nodes": [], "loader_workers": 1e300})",
              "key 'loader_workers' must be a whole number");
  is_reported(R"({"nodes": [], "batch": -1})", "key 'batch'");
  is_reported(R"({"nodes": [], "nodes": []})", "given twice");
  is_reported(R"({"nodes": [{"op": "a", "out": [[-3]]}]})",
              "key 'nodes[0].out'");
  is_reported(R"({"nodes": [{"op": "a", "in": [[1e15, 1e15]]}]})",
              "key 'nodes[0].in'");
  is_reported(std::string(1 << 20, '['), "nested deeper");
}

// A node takes its inputs from nodes before it, or from outside.
TEST(TracedModel, InputsPrecedeTheirUsers) {
  const auto with_input = [](int input) {
    return concat(R"({"nodes": [{"op": "a"}, {"op": "b", "inputs": [)", input,
                  "]}]}");
  };
  for (const int input : {-1, 0})
    EXPECT_EQ(parse_model(with_input(input), "t").nodes[1].inputs[0], input);
  for (const int input : {-2, 1, 2})
    expect_throws<IoError>([&] { parse_model(with_input(input), "t"); },
                           {"key 'nodes[1].inputs[0]' must be a whole number "
                            "from -1 to 0"});
}

TEST(TracedModel, ElementsOfShapes) {
  EXPECT_EQ(elements_of({}), 1);
  EXPECT_EQ(elements_of({3, 5, 2}), 30);
  EXPECT_EQ(elements_of({3, 0, 2}), 0);
  // More than 64 bits have.
  EXPECT_EQ(elements_of({1L << 40, 1L << 40}), 0x1p80);
}

}  // namespace
}  // namespace sheaf::plan
