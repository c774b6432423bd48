// Layers and kernels on a CUDA device; skipped without one.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/precision/cast_kernels.hpp"
#include "sheaf/parallel/precision/int8_product.hpp"
#include "sheaf/parallel/precision/loss_scale.hpp"
#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/parallel/precision/precision_flags.hpp"
#include "tests/parallel/precision/precision_networks.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
namespace kernels = cast_kernels;

class PrecisionOnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(11);
  }
};

class CastKernels : public PrecisionOnCuda {
 protected:
  void SetUp() override {
    PrecisionOnCuda::SetUp();
    if (!kernels::are_built()) GTEST_SKIP() << "built without kernels";
  }
};

at::TensorOptions on_device(at::ScalarType type) {
  return at::TensorOptions(at::kCUDA).dtype(type);
}

kernels::Type type_of_kernel(at::ScalarType type) {
  if (type == at::kFloat) return kernels::Type::kF32;
  return type == at::kHalf ? kernels::Type::kF16 : kernels::Type::kBf16;
}

kernels::Stream stream() { return kernels::current_stream(0); }

at::Tensor amax_by_kernel(const at::Tensor& x) {
  at::Tensor result = at::empty({1}, on_device(at::kFloat));
  kernels::amax(x.data_ptr(), type_of_kernel(x.scalar_type()),
                static_cast<std::size_t>(x.numel()), result.data_ptr<float>(),
                stream());
  return result;
}

at::Tensor largest(const at::Tensor& x) {
  return x.to(at::kFloat).abs().max().reshape({1});
}

TEST_F(CastKernels, AmaxOfAnyCountAndPlace) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16})
    for (const std::int64_t count : {1, 7, 8, 33, 1000, 4099, 3000017})
      for (const std::int64_t offset : {0, 1}) {  // the second is not aligned
        const at::Tensor x = at::randn({count + offset}, on_device(type))
                                 .narrow(0, offset, count);
        EXPECT_TRUE(amax_by_kernel(x).equal(largest(x)))
            << type << " " << count << " " << offset;
      }
}

TEST_F(CastKernels, AmaxKeepsWhatIsNoNumber) {
  at::Tensor x = at::randn({5000}, on_device(at::kHalf));
  x[4321] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(amax_by_kernel(x).item<float>()));
  x[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(amax_by_kernel(x).item<float>()));
}

at::Tensor amax_rows_by_kernel(const at::Tensor& x) {
  at::Tensor result = at::empty({x.size(0)}, on_device(at::kFloat));
  kernels::amax_rows(x.data_ptr(), type_of_kernel(x.scalar_type()), x.size(0),
                     x.size(1), result.data_ptr<float>(), stream());
  return result;
}

TEST_F(CastKernels, AmaxOfRows) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16})
    for (const std::int64_t columns : {1, 9, 64, 1155}) {
      const at::Tensor x = at::randn({37, columns}, on_device(type));
      EXPECT_TRUE(amax_rows_by_kernel(x).equal(x.to(at::kFloat).abs().amax(1)))
          << type << " " << columns;
    }
}

// Rounds like the kernels: 127 / amax in f32, one multiplication, to nearest
// even.
at::Tensor quantized_by_torch(const at::Tensor& x, const at::Tensor& amax) {
  const at::Tensor factor = at::full_like(amax, 127) / amax;
  return (x.to(at::kFloat) * factor).round().clamp(-127, 127).to(at::kChar);
}

at::Tensor quantized_by_kernel(const at::Tensor& x, const at::Tensor& amax,
                               std::int64_t rows, std::int64_t columns) {
  at::Tensor result = at::full({rows, columns}, 99, on_device(at::kChar));
  kernels::Quantize work;
  work.from = x.data_ptr();
  work.type = type_of_kernel(x.scalar_type());
  work.rows = x.size(0);
  work.columns = x.size(1);
  work.amax = amax.data_ptr<float>();
  work.has_amax_by_row = amax.numel() > 1;
  work.to = result.data_ptr<std::int8_t>();
  work.to_rows = rows;
  work.to_columns = columns;
  kernels::quantize(work, stream());
  return result;
}

TEST_F(CastKernels, QuantizeRoundsAsTorchDoes) {
  struct Case {
    std::int64_t rows, columns, to_rows, to_columns;
  };
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16})
    for (const Case& one :
         {Case{33, 64, 33, 64}, Case{5, 64, 32, 64}, Case{40, 27, 40, 32},
          Case{3, 100, 32, 112}, Case{1000, 1024, 1000, 1024}})
      for (const bool by_row : {false, true}) {
        const at::Tensor x =
            at::randn({one.rows, one.columns}, on_device(type));
        const at::Tensor amax =
            by_row ? amax_rows_by_kernel(x) : amax_by_kernel(x);
        at::Tensor wanted =
            at::zeros({one.to_rows, one.to_columns}, on_device(at::kChar));
        wanted.narrow(0, 0, one.rows)
            .narrow(1, 0, one.columns)
            .copy_(quantized_by_torch(x, by_row ? amax.unsqueeze(1) : amax));
        EXPECT_TRUE(quantized_by_kernel(x, amax, one.to_rows, one.to_columns)
                        .equal(wanted))
            << type << " " << one.rows << "x" << one.columns << " " << by_row;
      }
}

TEST_F(CastKernels, ZerosStayZeros) {
  const at::Tensor x = at::zeros({32, 32}, on_device(at::kHalf));
  EXPECT_EQ(quantized_by_kernel(x, amax_by_kernel(x), 32, 32)
                .to(at::kInt)
                .abs()
                .max()
                .item<int>(),
            0);
}

struct Unfolding {
  std::int64_t channels, height, width, kernel, stride, padding, dilation;
};

// Uses torch's unfolding of the int8 numbers.
at::Tensor unfolded_by_torch(const at::Tensor& x, const at::Tensor& amax,
                             const Unfolding& one, bool is_last) {
  const at::Tensor q = quantized_by_torch(x, amax).to(at::kFloat);
  const at::Tensor columns =
      at::im2col(q, {one.kernel, one.kernel}, {one.dilation, one.dilation},
                 {one.padding, one.padding}, {one.stride, one.stride});
  at::Tensor rows = columns.transpose(1, 2);  // images x pixels x (c, ky, kx)
  if (is_last)
    rows = rows.reshape({x.size(0), -1, one.channels, one.kernel * one.kernel})
               .transpose(2, 3);
  return rows.reshape({-1, one.channels * one.kernel * one.kernel})
      .to(at::kChar);
}

TEST_F(CastKernels, Im2colUnfoldsAsTorchDoes) {
  for (const Unfolding& one :
       {Unfolding{3, 12, 10, 3, 1, 1, 1}, Unfolding{3, 31, 33, 7, 2, 3, 1},
        Unfolding{16, 9, 14, 3, 1, 2, 2}, Unfolding{64, 8, 8, 1, 1, 0, 1},
        Unfolding{24, 17, 5, 3, 2, 0, 1}, Unfolding{8, 6, 6, 5, 1, 2, 1}})
    for (const bool is_last : {false, true}) {
      at::Tensor x = at::randn({3, one.channels, one.height, one.width},
                               on_device(at::kHalf));
      if (is_last) x = x.contiguous(at::MemoryFormat::ChannelsLast);
      const bool has_groups = is_last && one.channels % 8 == 0;
      const at::Tensor amax = amax_by_kernel(x);
      const at::Tensor wanted = unfolded_by_torch(x, amax, one, has_groups);
      kernels::Im2col work;
      work.from = x.data_ptr();
      work.images = 3;
      work.channels = one.channels;
      work.height = one.height;
      work.width = one.width;
      work.image_stride = x.stride(0);
      work.channel_stride = x.stride(1);
      work.row_stride = x.stride(2);
      work.column_stride = x.stride(3);
      for (int axis = 0; axis < 2; ++axis) {
        work.kernel[axis] = one.kernel;
        work.stride[axis] = one.stride;
        work.padding[axis] = one.padding;
        work.dilation[axis] = one.dilation;
      }
      const std::int64_t reach = one.dilation * (one.kernel - 1) + 1;
      work.out_height = (one.height + 2 * one.padding - reach) / one.stride + 1;
      work.out_width = (one.width + 2 * one.padding - reach) / one.stride + 1;
      work.is_channels_last = has_groups;
      work.amax = amax.data_ptr<float>();
      work.to_columns = (work.columns() + 15) / 16 * 16;
      if (has_groups) work.to_columns = work.columns();
      at::Tensor result =
          at::full({work.rows(), work.to_columns}, 99, on_device(at::kChar));
      work.to = result.data_ptr<std::int8_t>();
      kernels::im2col(work, stream());
      EXPECT_TRUE(result.narrow(1, 0, work.columns()).equal(wanted))
          << one.channels << " channels, kernel " << one.kernel << " "
          << is_last;
      EXPECT_EQ(
          result.narrow(1, work.columns(), work.to_columns - work.columns())
              .to(at::kInt)
              .abs()
              .sum()
              .item<std::int64_t>(),
          0);
    }
}

TEST_F(CastKernels, DequantizeScalesAndAdds) {
  for (const std::int64_t columns : {5, 8, 40, 64})
    for (const std::int64_t pixels : {0, 49, 64})
      for (const bool by_column : {false, true}) {
        const std::int64_t rows = pixels > 0 ? 3 * pixels : 150;
        const std::int64_t stride = (columns + 7) / 8 * 8;
        const at::Tensor sums =
            at::randint(-5000, 5000, {rows, stride}, on_device(at::kInt));
        const at::Tensor amax = at::rand({1}, on_device(at::kFloat)) + 1;
        const at::Tensor by =
            at::rand({by_column ? columns : 1}, on_device(at::kFloat)) + 1;
        const at::Tensor bias = at::randn({columns}, on_device(at::kHalf));
        at::Tensor wanted = sums.narrow(1, 0, columns).to(at::kFloat) *
                                (amax / 127 * (by / 127)) +
                            bias;
        if (pixels > 0)
          wanted = wanted.reshape({3, pixels, columns}).transpose(1, 2);
        at::Tensor result = at::empty(wanted.sizes(), on_device(at::kHalf));
        kernels::Dequantize work;
        work.from = sums.data_ptr<std::int32_t>();
        work.rows = rows;
        work.columns = columns;
        work.row_stride = stride;
        work.amax = amax.data_ptr<float>();
        work.amax_by = by.data_ptr<float>();
        work.has_amax_by_column = by_column;
        work.bias = bias.data_ptr();
        work.to = result.data_ptr();
        work.pixels = pixels;
        kernels::dequantize(work, stream());
        // f16 has 11 significant bits.
        EXPECT_TRUE(at::allclose(result.to(at::kFloat), wanted, 1e-3, 1e-3))
            << columns << " " << pixels << " " << by_column;
      }
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kFloat) - b.to(at::kFloat)).norm() /
          b.to(at::kFloat).norm())
      .item<double>();
}

// Normally distributed numbers are rounded to 1/127 of their maximum, which is
// 4 to 5 standard deviations: an error of 0.01 of their size for each factor.
constexpr double kInt8Error = 0.03;

TEST_F(CastKernels, LinearLayersInInt8) {
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

TEST_F(CastKernels, ConvolutionsInInt8) {
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

PrecisionPlan every_layer(Precision precision) { return {{}, precision}; }

TEST_F(PrecisionOnCuda, EveryPrecisionIsNearF32) {
  PlannedNet net;
  Attention attention;
  net->to(at::kCUDA);
  attention->to(at::kCUDA);
  const at::Tensor images = torch::randn({16, 3, 8, 8}, at::kCUDA);
  const at::Tensor words = torch::randn({4, 20, 12}, at::kCUDA);
  const auto f32 = every_layer(Precision::kF32);
  const auto exact = results_under(net, f32, images);
  const auto exact_words = results_under(attention, f32, words);
  struct Case {
    Precision precision;
    at::ScalarType type;
    double error;
  };
  for (const Case& one : {Case{Precision::kTf32, at::kFloat, 0.01},
                          Case{Precision::kBf16, at::kBFloat16, 0.06},
                          Case{Precision::kF16, at::kHalf, 0.01},
                          Case{Precision::kInt8, at::kHalf, 0.15}}) {
    if (one.precision == Precision::kInt8 && !kernels::are_built()) continue;
    const auto plan = every_layer(one.precision);
    const auto planned = results_under(net, plan, images);
    EXPECT_EQ(planned[0].scalar_type(), one.type);
    EXPECT_LT(relative_error(planned[0], exact[0]), one.error)
        << plan::to_string(one.precision);
    for (std::size_t i = 1; i < planned.size(); ++i)
      EXPECT_EQ(planned[i].scalar_type(), at::kFloat);
    const auto planned_words = results_under(attention, plan, words);
    EXPECT_LT(relative_error(planned_words[0], exact_words[0]), one.error)
        << plan::to_string(one.precision);
  }
}

// The same bits as with libtorch's own setting, forward and backward.
TEST_F(PrecisionOnCuda, Tf32IsOfSingleLayersInBackwardToo) {
  const Tf32Flags outside(false);
  torch::nn::Sequential net(torch::nn::Linear(256, 256),
                            torch::nn::Linear(256, 256));
  net->to(at::kCUDA);
  const at::Tensor x = torch::randn({512, 256}, at::kCUDA);
  const auto gradients = [&](const PrecisionPlan& plan) {
    return results_under(net, plan, x);
  };
  const auto f32 = gradients(every_layer(Precision::kF32));
  {
    const Tf32Flags on(true);  // f32 layers use f32, whatever the setting is
    const auto again = gradients(every_layer(Precision::kF32));
    EXPECT_TRUE(has_same_bits(f32, again));
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
    EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
  }
  const auto tf32 = gradients(every_layer(Precision::kTf32));
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  {
    const Tf32Flags on(true);
    const auto by_torch = results_of(net, [&] { return net->forward(x); });
    EXPECT_TRUE(has_same_bits(tf32, by_torch));
  }
  EXPECT_FALSE(f32[0].equal(tf32[0]));
  // Only the last layer: the output of the first one is unchanged, gradients
  // are not.
  const auto last = gradients({{{"1", Precision::kTf32}}});
  const at::Tensor delta = (f32[0] - last[0]).abs().max();
  EXPECT_GT(delta.item<double>(), 0);
  EXPECT_FALSE(last[3].equal(f32[3]));
}

TEST_F(PrecisionOnCuda, WeightsOfIntegersAreTrained) {
  if (!kernels::are_built()) GTEST_SKIP() << "built without kernels";
  torch::nn::Sequential net(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)),
      torch::nn::ReLU(), torch::nn::Flatten(), torch::nn::Linear(16 * 64, 2));
  net->to(at::kCUDA);
  MixedPrecision precision(*net, every_layer(Precision::kInt8));
  ASSERT_TRUE(precision.needs_loss_scale());
  const at::Tensor x = torch::randn({64, 1, 8, 8}, at::kCUDA);
  const at::Tensor target = (x.mean({1, 2, 3}) > 0).to(at::kLong);
  torch::optim::SGD optimizer(net->parameters(), 0.05);
  LossScale scale;
  double first = 0, last = 0;
  comm::run_threads(1, [&](const comm::Group& group) {
    for (int step = 0; step < 200; ++step) {
      optimizer.zero_grad();
      at::Tensor loss;
      {
        const auto scope = precision.forward_scope();
        loss = torch::cross_entropy_loss(net->forward(x), target);
      }
      scale.scaled(loss).backward();
      if (scale.unscale(net->parameters(), group)) optimizer.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
  });
  EXPECT_LT(last, 0.3 * first);
}

TEST_F(PrecisionOnCuda, GroupsInInt8AreToldOnceAndDoneInF16) {
  if (!kernels::are_built()) GTEST_SKIP() << "built without kernels";
  torch::nn::Sequential net(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).groups(8)),
      torch::nn::Conv2d(8, 8, 1));
  net->to(at::kCUDA);
  const at::Tensor x = torch::randn({4, 8, 6, 6}, at::kCUDA);
  const PrecisionPlan mixed{{{"0", Precision::kF16}}, Precision::kInt8};
  const auto f16 = results_under(net, mixed, x);
  MixedPrecision precision(*net, every_layer(Precision::kInt8));
  testing::internal::CaptureStderr();
  for (int pass = 0; pass < 2; ++pass) {
    const auto scope = precision.forward_scope();
    EXPECT_TRUE(net->forward(x).equal(f16[0]));
  }
  const std::string told = testing::internal::GetCapturedStderr();
  const std::size_t first = told.find("int8 for the layer 0, a conv2d");
  EXPECT_NE(first, told.npos) << told;
  EXPECT_EQ(told.find("int8 for the layer", first + 1), told.npos) << told;
}

}  // namespace
}  // namespace sheaf::parallel
