// Which products int8 supports; their values are tested in
// int8_product_test.cpp.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/parallel/precision/int8_product.hpp"

namespace sheaf::parallel {
namespace {

using Arguments = std::vector<c10::IValue>;

bool can(const char* name, const Arguments& arguments, std::size_t weight = 1) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  return can_int8(rule_of(op), arguments.data(), weight);
}

Arguments convolution(std::int64_t channels, std::int64_t groups) {
  const std::vector<std::int64_t> ones{1, 1};
  return {torch::ones({2, channels, 5, 5}),
          torch::ones({8, channels / groups, 3, 3}),
          c10::IValue(),
          ones,
          ones,
          ones,
          groups};
}

TEST(Int8, IsForConvolutionsWithoutGroups) {
  EXPECT_TRUE(can("aten::conv2d", convolution(8, 1)));
  EXPECT_FALSE(can("aten::conv2d", convolution(8, 2)));
  EXPECT_FALSE(can("aten::conv2d", convolution(8, 8)));
  Arguments empty = convolution(8, 1);
  empty[0] = torch::ones({0, 8, 5, 5});
  EXPECT_FALSE(can("aten::conv2d", empty));
}

TEST(Int8, IsForProductsWithAWeightOnTheRight) {
  const at::Tensor x = torch::ones({4, 6}), weight = torch::ones({6, 3});
  EXPECT_TRUE(can("aten::mm", {x, weight}));
  EXPECT_FALSE(can("aten::mm", {weight.t(), x.t()}, /*weight=*/0));
  EXPECT_TRUE(can("aten::addmm", {torch::ones({3}), x, weight, 1, 1}, 2));
  EXPECT_FALSE(can("aten::addmm", {torch::ones({3}), x, weight, 2, 1}, 2));
  EXPECT_FALSE(
      can("aten::bmm", {torch::ones({2, 4, 6}), torch::ones({2, 6, 3})}));
}

}  // namespace
}  // namespace sheaf::parallel
