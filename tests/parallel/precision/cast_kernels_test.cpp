#include "sheaf/parallel/precision/cast_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/parallel/precision/precision_cuda.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
namespace kernels = cast_kernels;

class CastKernels : public Int8OnCuda {};

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

TEST_F(CastKernels, AmaxPropagatesNaN) {
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

}  // namespace
}  // namespace sheaf::parallel
