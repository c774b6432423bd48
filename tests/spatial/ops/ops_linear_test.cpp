#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

TEST(SplitLinear, ColumnsOfTilesOrGathered) {
  expect_on_grids({{"few outputs",
                    {3, 2, 5, 4},
                    {{6, 40}, {6}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::linear(x.view({x.size(0), -1}), w[0], w[1]);
                    }},
                   {"many outputs",
                    {3, 1, 3, 2},
                    {{20, 6}, {20}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::linear(at::relu(x.flatten(1)), w[0], w[1]);
                    }},
                   {"at each place",
                    {2, 3, 5, 4},
                    {{7, 3}, {7}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::linear(x.permute({0, 2, 3, 1}), w[0], w[1]);
                    }},
                   {"two of them",
                    {3, 2, 5, 4},
                    {{6, 40}, {5, 6}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::linear(
                          at::relu(at::linear(x.flatten(1), w[0])), w[1]);
                    }}},
                  kFlatGrids);
}

// A line with one channel is unchanged by flatten(), and its axis stays cut.
TEST(SplitLinear, FeaturesThatAreCut) {
  expect_on_grids({{"a line",
                    {3, 1, 7},
                    {{4, 7}, {4}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::linear(x.flatten(1), w[0], w[1]) +
                             at::linear(x, w[0], w[1]).flatten(1) +
                             at::matmul(x, w[0].t()).squeeze(1);
                    }}},
                  {"1", "2", "3"});
}

}  // namespace
}  // namespace sheaf::spatial
