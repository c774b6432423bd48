#include "sheaf/parallel/precision/int8_product.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "tests/parallel/precision/precision_cuda.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

class Int8ProductOnCuda : public Int8OnCuda {};

// Each output of each image has one row, with the elements that the kernel
// covers.
TEST(Int8Product, AConvolutionUnfoldsItsInput) {
  const at::Tensor x = torch::zeros({2, 3, 8, 10});
  const at::Tensor weight = torch::zeros({7, 3, 3, 5});
  const std::int64_t columns = 3 * 3 * 5;
  EXPECT_EQ(unfolded_elements(x, weight, {}), 6 * 6 * columns);
  EXPECT_EQ(unfolded_elements(x, weight, {.padding = {1, 2}}),
            8 * 10 * columns);
  EXPECT_EQ(unfolded_elements(x, weight, {.stride = {2, 3}}), 3 * 2 * columns);
  EXPECT_EQ(unfolded_elements(x, weight, {.dilation = {2, 1}}),
            4 * 6 * columns);
  EXPECT_EQ(unfolded_elements(x, torch::zeros({0, 3, 3, 5}), {}), 0);
}

TEST(Int8Product, NeedsTheKernels) {
  if (cast_kernels::are_built()) GTEST_SKIP() << "built with kernels";
  const at::Tensor x = torch::ones({4, 16}, at::kHalf);
  expect_throws<UsageError>([&] { int8_linear(x, x, {}, true); },
                            {"built without its CUDA kernels"});
  const at::Tensor image = torch::ones({1, 8, 4, 4}, at::kHalf);
  expect_throws<UsageError>([&] { int8_conv2d(image, image, {}, {}, true); },
                            {"built without its CUDA kernels"});
}

// Normally distributed numbers are rounded to 1/127 of their maximum, which is
// 4 to 5 standard deviations: an error of 0.01 of their size for each factor.
constexpr double kInt8Error = 0.03;

TEST_F(Int8ProductOnCuda, OfALinearLayer) {
  for (const std::int64_t rows : {1, 16, 40, 333})
    for (const bool by_channel : {false, true}) {
      const auto options = on_device(at::kHalf).requires_grad(true);
      const at::Tensor x = torch::randn({rows, 70}, options);
      const at::Tensor w = torch::randn({51, 70}, options);
      const at::Tensor b = torch::randn({51}, options);
      const at::Tensor y = int8_linear(x, w, b, by_channel);
      const at::Tensor exact = torch::linear(x, w, b);
      EXPECT_EQ(y.scalar_type(), at::kHalf);
      EXPECT_LT(relative_error(y, exact), kInt8Error) << rows;
      const at::Tensor delta = at::randn({rows, 51}, on_device(at::kHalf));
      const auto planned = torch::autograd::grad({y}, {x, w, b}, {delta});
      const auto wanted = torch::autograd::grad({exact}, {x, w, b}, {delta});
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_LT(relative_error(planned[i], wanted[i]), 2e-3) << i;
    }
}

TEST_F(Int8ProductOnCuda, OfAConvolution) {
  struct Case {
    std::int64_t in, out, size, kernel, stride, padding, dilation;
  };
  for (const Case& one :
       {Case{3, 20, 19, 7, 2, 3, 1}, Case{16, 24, 14, 3, 1, 1, 1},
        Case{32, 40, 9, 1, 1, 0, 1}, Case{32, 16, 9, 1, 2, 0, 1},
        Case{8, 13, 12, 3, 1, 2, 2}})
    for (const bool is_last : {false, true})
      for (const bool by_channel : {false, true}) {
        at::Tensor x =
            at::randn({4, one.in, one.size, one.size}, on_device(at::kHalf));
        if (is_last) x = x.contiguous(at::MemoryFormat::ChannelsLast);
        x.requires_grad_();
        const auto options = on_device(at::kHalf).requires_grad(true);
        const at::Tensor w =
            torch::randn({one.out, one.in, one.kernel, one.kernel}, options);
        const at::Tensor b = torch::randn({one.out}, options);
        const ConvGeometry geometry{{one.stride, one.stride},
                                    {one.padding, one.padding},
                                    {one.dilation, one.dilation}};
        const at::Tensor y = int8_conv2d(x, w, b, geometry, by_channel);
        const at::Tensor exact =
            torch::conv2d(x, w, b, one.stride, one.padding, one.dilation);
        ASSERT_EQ(y.sizes(), exact.sizes());
        EXPECT_LT(relative_error(y, exact), kInt8Error)
            << one.in << " to " << one.out << ", kernel " << one.kernel << " "
            << is_last << by_channel;
        const at::Tensor delta = at::randn_like(y);
        const auto planned = torch::autograd::grad({y}, {x, w, b}, {delta});
        const auto wanted = torch::autograd::grad({exact}, {x, w, b}, {delta});
        for (std::size_t i = 0; i < 3; ++i)
          EXPECT_LT(relative_error(planned[i], wanted[i]), 5e-3) << i;
      }
}

}  // namespace
}  // namespace sheaf::parallel
