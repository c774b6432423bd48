#include "sheaf/plan/graph/operator_map.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/plan/trace/trace_text.hpp"

namespace sheaf::plan {
namespace {

TEST(OperatorMap, FindsForwardOperatorsByNumber) {
  TraceText text;
  const std::string engine = "autograd::engine::evaluate_function: ";
  text.op("aten::linear", 1, 0, 50, 5);
  text.op("aten::addmm", 1, 10, 30, 5);  // deeper: it created the node
  text.op("aten::detach", 1, 45, 3, 5);  // at the same depth, and later
  text.op("aten::relu", 1, 60, 10, 6);
  text.op(engine + "ReluBackward0", 2, 100, 20, 6);
  text.op("ReluBackward0", 2, 102, 10, 6);
  text.op(engine + "AddmmBackward0", 2, 130, 20, 5);
  text.op(engine + "torch::autograd::AccumulateGrad", 2, 160, 10);
  text.op(engine + "OddBackward0", 2, 180, 10, 99);
  const Trace trace = read_steps(text.write());
  const StepTrace& step = trace.steps[0];
  const OperatorMap map = map_operators(step, trace.names);
  const auto name_of = [&](std::int32_t one) {
    return one < 0
               ? std::string("none")
               : trace
                     .names[step.operators[static_cast<std::size_t>(one)].name];
  };
  EXPECT_EQ(map.backward, 3u);
  EXPECT_EQ(map.accumulated, 1u);
  EXPECT_EQ(name_of(map.source[4]), "aten::relu");
  EXPECT_EQ(name_of(map.source[6]), "aten::detach");
  EXPECT_EQ(name_of(map.outermost[static_cast<std::size_t>(map.source[6])]),
            "aten::linear");
  EXPECT_EQ(name_of(map.source[7]), engine + "AddmmBackward0");
  ASSERT_EQ(map.unmatched.size(), 1u);
  EXPECT_EQ(name_of(map.unmatched[0].of), engine + "OddBackward0");
  EXPECT_NE(map.unmatched[0].reason.find("99"), std::string::npos);
}

TEST(DdpBuckets, CloseWhenTheyAreFull) {
  EXPECT_EQ(ddp_bucket_bytes({1 << 20, 10, 25 << 20, 7, 8}),
            (std::vector<std::int64_t>{1 << 20, (25 << 20) + 10, 15}));
  EXPECT_EQ(ddp_bucket_bytes({5, 5, 5}, {.first_bytes = 5, .bytes = 10}),
            (std::vector<std::int64_t>{5, 10}));
  EXPECT_EQ(ddp_bucket_bytes({}), std::vector<std::int64_t>{});
}

// In old traces, the last forward operator of a name is matched first.
TEST(OperatorMap, FindsForwardOperatorsByNameWithoutNumbers) {
  TraceText text;
  const std::string engine = "autograd::engine::evaluate_function: ";
  text.op("aten::linear", 1, 0, 20);
  text.op("aten::addmm", 1, 5, 10);
  text.op("aten::max_pool2d", 1, 30, 10);
  text.op("aten::linear", 1, 50, 20);
  text.op("aten::addmm", 1, 55, 10);
  text.op("mine::product", 1, 80, 10);
  text.op(engine + "MineBackward", 2, 100, 10);
  text.op(engine + "AddmmBackward0", 2, 120, 10);
  text.op(engine + "MaxPool2DBackward0", 2, 140, 10);
  text.op(engine + "AddmmBackward0", 2, 160, 10);
  text.op(engine + "AddmmBackward0", 2, 180, 10);
  const Trace trace = read_steps(text.write());
  const StepTrace& step = trace.steps[0];
  const OperatorMap map = map_operators(
      step, trace.names, {{"mine::product", {"MineBackward"}, true}});
  EXPECT_EQ(map.by_name, 4u);
  EXPECT_EQ(map.source[6], 5);
  EXPECT_EQ(map.source[7], 4);
  EXPECT_EQ(map.source[8], 2);
  EXPECT_EQ(map.source[9], 1);
  ASSERT_EQ(map.unmatched.size(), 1u);
  EXPECT_NE(map.unmatched[0].reason.find("\"addmm\""), std::string::npos);
}

}  // namespace
}  // namespace sheaf::plan
