#include "sheaf/tensor/record/graph_recorder.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "sheaf/tensor/groups/scope.hpp"

namespace sheaf::tensor {
namespace {

using Inputs = std::vector<std::int32_t>;

class RecordedGraph : public testing::Test {
 protected:
  // The operators that the body calls.
  template <class Body>
  const std::vector<GraphNode>& nodes_of(Body body) {
    recorder_.emplace();
    {
      const Scope phase("sheaf::phase forward");
      body();
    }
    return recorder_->nodes();
  }
  static std::string names(const std::vector<GraphNode>& nodes) {
    std::string text;
    for (const GraphNode& node : nodes)
      text += (text.empty() ? "" : " ") + node.op.substr(6);
    return text;
  }

  std::optional<GraphRecorder> recorder_;
  at::Tensor x_ = torch::ones({2, 3});
};

TEST_F(RecordedGraph, HasOutermostOperatorsAndWhoFeedsWhom) {
  const auto& nodes = nodes_of([&] {
    const at::Tensor a = torch::matmul(x_, torch::ones({3, 4}));
    const at::Tensor b = torch::relu(a);
    torch::cat({a, b}, 1);
  });
  ASSERT_EQ(names(nodes), "ones matmul relu cat");
  EXPECT_EQ(nodes[1].inputs, (Inputs{-1, 0}));
  EXPECT_EQ(nodes[2].inputs, (Inputs{1}));
  EXPECT_EQ(nodes[3].inputs, (Inputs{1, 2}));
  EXPECT_EQ(nodes[1].in,
            (std::vector<std::vector<std::int64_t>>{{2, 3}, {3, 4}}));
  EXPECT_EQ(nodes[3].out, (std::vector<std::vector<std::int64_t>>{{2, 8}}));
  EXPECT_EQ(nodes[3].type, "f32");
}

TEST_F(RecordedGraph, OnlyPhasesOfForwardCount) {
  GraphRecorder recorder;
  torch::relu(x_);
  for (const char* name :
       {"sheaf::phase loss", "sheaf::phase backward", "sheaf::other"}) {
    const Scope scope{name};
    torch::relu(x_);
  }
  EXPECT_EQ(recorder.nodes().size(), 1u);
}

TEST_F(RecordedGraph, WritersInPlaceCountForAllViews) {
  const auto& nodes = nodes_of([&] {
    at::Tensor a = torch::relu(x_);    // 0
    at::Tensor view = a.view({3, 2});  // 1
    at::Tensor row = a.select(0, 1);   // 2
    row.add_(1);                       // 3
    torch::relu(view);                 // 4
    torch::relu(a);                    // 5
    torch::relu(row);                  // 6
    torch::relu(x_);                   // 7
  });
  ASSERT_EQ(nodes.size(), 8u) << names(nodes);
  EXPECT_EQ(nodes[1].inputs, (Inputs{0}));
  EXPECT_EQ(nodes[3].inputs, (Inputs{2}));
  for (const std::size_t reader : {4u, 5u, 6u})
    EXPECT_EQ(nodes[reader].inputs, (Inputs{3})) << reader;
  EXPECT_EQ(nodes[7].inputs, (Inputs{-1}));
}

TEST_F(RecordedGraph, ResultsThatAreGivenCount) {
  const auto& nodes = nodes_of([&] {
    at::Tensor a = torch::empty({2, 3});
    torch::add_out(a, x_, x_);
    torch::relu(a);
  });
  ASSERT_EQ(names(nodes), "empty add relu");
  EXPECT_EQ(nodes[2].inputs, (Inputs{1}));
}

// The memory of a freed tensor is reused.
TEST_F(RecordedGraph, AddressesAreNotMistaken) {
  const auto& nodes = nodes_of([&] {
    for (int i = 0; i < 100; ++i) torch::relu(x_);
    const at::Tensor fresh = torch::from_blob(x_.data_ptr(), {2, 3});
    torch::relu(fresh);
  });
  std::set<std::int32_t> sources;
  for (const GraphNode& node : nodes)
    if (node.op == "aten::relu") sources.insert(node.inputs.at(0));
  // libtorch may or may not report from_blob() as an operator.
  for (const std::int32_t source : sources)
    EXPECT_TRUE(source == -1 || source >= 100) << source;
}

TEST_F(RecordedGraph, LayersAndTheirCasts) {
  const auto& nodes = nodes_of([&] {
    at::Tensor a;
    {
      const Scope layer("sheaf::layer a.b bf16");
      const at::Tensor input = x_.to(torch::kBFloat16);
      const at::Tensor weight = torch::ones({3, 2}).to(torch::kBFloat16);
      a = torch::mm(input, weight);
    }
    torch::relu(a);
  });
  ASSERT_EQ(names(nodes), "to ones to mm relu");
  EXPECT_EQ(nodes[3].layer, "a.b");
  EXPECT_EQ(nodes[0].layer, "a.b");
  EXPECT_EQ(nodes[3].type, "bf16");
  EXPECT_EQ(nodes[3].inputs, (Inputs{0, 2}));
  EXPECT_EQ(nodes[4].layer, "");
  EXPECT_EQ(nodes[4].inputs, (Inputs{3}));
}

// Inner operators produce results of other types.
TEST_F(RecordedGraph, TypesAreThoseOfTheOperatorItself) {
  const auto& nodes = nodes_of([&] {
    const at::Tensor images = torch::ones({2, 3, 4, 4});
    torch::batch_norm(images, torch::ones(3), torch::zeros(3), torch::zeros(3),
                      torch::ones(3), /*training=*/true, 0.1, 1e-5, false);
  });
  EXPECT_EQ(nodes.back().op, "aten::batch_norm");
  EXPECT_EQ(nodes.back().type, "f32");
}

// An operator that is reported without its inputs.
TEST_F(RecordedGraph, PartsTellForAnOperatorThatDoesNot) {
  const auto& nodes = nodes_of([&] {
    const at::Tensor a = torch::relu(x_);
    at::Tensor b;
    {
      at::RecordFunction whole(at::RecordScope::FUNCTION);
      whole.before("aten::whole");
      const Scope layer("sheaf::layer inner f32");
      b = torch::mm(a, torch::ones({3, 3}));
    }
    torch::relu(b);
  });
  ASSERT_EQ(names(nodes), "relu whole relu");
  // Its inputs are those of its parts, with repetitions, and no others.
  EXPECT_EQ(
      std::set<std::int32_t>(nodes[1].inputs.begin(), nodes[1].inputs.end())
          .count(0),
      1u);
  for (const std::int32_t input : nodes[1].inputs) EXPECT_LE(input, 0);
  EXPECT_EQ(nodes[1].layer, "inner");
  EXPECT_EQ(nodes[2].inputs, (Inputs{1}));
}

// Operators outside of libtorch may take tuples and lists of any values.
TEST_F(RecordedGraph, TensorsInTuplesAndListsAreInputs) {
  const auto& nodes = nodes_of([&] {
    const at::Tensor a = torch::relu(x_), b = torch::relu(a);
    c10::impl::GenericList list(c10::AnyType::get());
    list.push_back(b);
    list.push_back(3);
    const std::vector<c10::IValue> inputs{std::make_tuple(a, 2, b), list};
    at::RecordFunction whole(at::RecordScope::FUNCTION);
    whole.before("aten::whole", &inputs);
  });
  ASSERT_EQ(names(nodes), "relu relu whole");
  EXPECT_EQ(nodes[2].inputs, (Inputs{0, 1, 1}));
}

TEST_F(RecordedGraph, StatisticsOfALayer) {
  GraphRecorder recorder({.has_statistics = true});
  const at::Tensor x = torch::tensor({{1.0f, -3.0f}});
  const at::Tensor weight = torch::tensor({{2.0f}, {0.5f}}).requires_grad_();
  const at::Tensor bias = torch::ones({1});
  {
    const Scope phase("sheaf::phase forward");
    at::Tensor y;
    {
      const Scope layer("sheaf::layer fc f32");
      y = torch::addmm(bias, x, weight);
    }
    (y * 4).sum().backward();
  }
  const auto all = recorder.take_statistics();
  ASSERT_EQ(all.size(), 1u);
  const LayerStatistics& fc = all.at("fc");
  EXPECT_EQ(fc.op, "aten::addmm");
  EXPECT_EQ(fc.input.elements, 2);
  EXPECT_DOUBLE_EQ(fc.input.square, 10);
  EXPECT_DOUBLE_EQ(fc.input.largest, 3);
  EXPECT_DOUBLE_EQ(fc.weight.square, 4.25);
  EXPECT_EQ(fc.output.elements, 1);
  EXPECT_EQ(fc.output_gradient.elements, 1);
  EXPECT_DOUBLE_EQ(fc.output_gradient.square, 16);
}

}  // namespace
}  // namespace sheaf::tensor
