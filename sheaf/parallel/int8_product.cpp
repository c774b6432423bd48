#include "sheaf/parallel/int8_product.hpp"

#include <ATen/Functions.h>
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/cast_kernels.hpp"
#include "sheaf/parallel/keep.hpp"

// Old versions of libtorch have none: then this is found, and does nothing.
namespace sheaf_no_int_mm {
struct Nothing {};
template <class... Ignored>
Nothing _int_mm(const Ignored&...) {
  return {};
}
}  // namespace sheaf_no_int_mm

namespace sheaf::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a product needs of its sizes: more than 16 rows; the rest in eights, of
// which kernels read two at a time.
constexpr std::int64_t kLeastRows = 32;
constexpr std::int64_t kColumnUnit = 8;
constexpr std::int64_t kInnerUnit = 16;
// What a convolution unfolds at once.
constexpr std::int64_t kUnfoldedElements = std::int64_t{1} << 30;

// Observers see it as an operator.
class Told {
 public:
  explicit Told(const char* name, std::int64_t node = -1)
      : record_(at::RecordScope::FUNCTION) {
    if (record_.isActive()) record_.before(name, node);
  }

 private:
  at::RecordFunction record_;
};

std::int64_t next_gradient_node() {
  return at::GradMode::is_enabled()
             ? static_cast<std::int64_t>(at::sequence_number::peek())
             : -1;
}

std::int64_t round_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

template <class A, class B>
at::Tensor integer_product(const A& a, const B& b) {
  using namespace at;
  using namespace sheaf_no_int_mm;
  if constexpr (std::is_same_v<decltype(_int_mm(a, b)), Nothing>)
    throw UsageError("this libtorch has no product of int8 matrices");
  else
    return _int_mm(a, b);
}

cast_kernels::Stream stream_of(const at::Tensor& tensor) {
  return cast_kernels::current_stream(tensor.device().index());
}

at::Tensor amax_of(const at::Tensor& x) {
  const Told told("sheaf::amax");
  at::Tensor result = at::empty({1}, x.options().dtype(at::kFloat));
  cast_kernels::amax(x.data_ptr(), cast_kernels::Type::kF16,
                     static_cast<std::size_t>(x.numel()),
                     result.data_ptr<float>(), stream_of(x));
  return result;
}

at::Tensor amax_of_rows(const at::Tensor& matrix) {
  const Told told("sheaf::amax");
  at::Tensor result =
      at::empty({matrix.size(0)}, matrix.options().dtype(at::kFloat));
  cast_kernels::amax_rows(matrix.data_ptr(), cast_kernels::Type::kF16,
                          matrix.size(0), matrix.size(1),
                          result.data_ptr<float>(), stream_of(matrix));
  return result;
}

// A matrix in int8, with zeros behind it, and what it was scaled by.
struct Int8Matrix {
  at::Tensor values;
  at::Tensor amax;
};

Int8Matrix quantised(const at::Tensor& matrix, at::Tensor amax,
                     std::int64_t rows, std::int64_t columns) {
  const Told told("sheaf::quantise");
  Int8Matrix result{
      at::empty({rows, columns}, matrix.options().dtype(at::kChar)),
      std::move(amax)};
  cast_kernels::Quantise work;
  work.from = matrix.data_ptr();
  work.rows = matrix.size(0);
  work.columns = matrix.size(1);
  work.amax = result.amax.data_ptr<float>();
  work.has_amax_by_row = result.amax.numel() > 1;
  work.to = result.values.data_ptr<std::int8_t>();
  work.to_rows = rows;
  work.to_columns = columns;
  cast_kernels::quantise(work, stream_of(matrix));
  return result;
}

// out x inner, padded.
Int8Matrix quantised_weight(const at::Tensor& weight, bool by_channel,
                            std::int64_t inner) {
  return quantised(weight, by_channel ? amax_of_rows(weight) : amax_of(weight),
                   round_up(weight.size(0), kColumnUnit), inner);
}

// The product of both, of which `rows` are wanted, into `to`.
struct Output {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  void* to = nullptr;
  std::int64_t pixels = 0;  // of an image, where it is to be planes
};

void multiply(const Int8Matrix& x, const Int8Matrix& weight,
              const at::Tensor& bias, const Output& output) {
  const at::Tensor sums = integer_product(x.values, weight.values.t());
  const Told told("sheaf::dequantise");
  cast_kernels::Dequantise work;
  work.from = sums.data_ptr<std::int32_t>();
  work.rows = output.rows;
  work.columns = output.columns;
  work.row_stride = sums.stride(0);
  work.amax = x.amax.data_ptr<float>();
  work.amax_by = weight.amax.data_ptr<float>();
  work.has_amax_by_column = weight.amax.numel() > 1;
  work.bias = bias.defined() ? bias.data_ptr() : nullptr;
  work.to = output.to;
  work.pixels = output.pixels;
  cast_kernels::dequantise(work, stream_of(sums));
}

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, bool by_channel) {
  const std::int64_t inner = round_up(x.size(1), kInnerUnit);
  const Int8Matrix left =
      quantised(x, amax_of(x), std::max(x.size(0), kLeastRows), inner);
  const Int8Matrix right = quantised_weight(weight, by_channel, inner);
  at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
  multiply(left, right, bias, {y.size(0), y.size(1), y.data_ptr(), 0});
  return y;
}

// libtorch's own, or std's: that depends on its version.
using OptionalTensor =
    decltype(std::declval<c10::IValue&>().toOptional<at::Tensor>());

// Undefined tensors cannot be given to functions.
OptionalTensor given(const at::Tensor& bias) {
  return bias.defined() ? OptionalTensor(bias) : OptionalTensor();
}

at::Tensor bias_of(AutogradContext* context, const OptionalTensor& bias) {
  context->saved_data["has_bias"] = bias.has_value();
  return bias ? bias->contiguous() : at::Tensor();
}

bool needs_bias(AutogradContext* context) {
  return context->saved_data["has_bias"].toBool() &&
         context->needs_input_grad(2);
}

struct Int8Linear : torch::autograd::Function<Int8Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight,
                            const OptionalTensor& bias, bool by_channel) {
    context->save_for_backward({x, weight});
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    // No view: what works on it in place need not know how it was made.
    return at::_unsafe_view(
        linear_forward(rows_of(x).contiguous(), weight.contiguous(),
                       bias_of(context, bias), by_channel),
        sizes);
  }
  static at::Tensor rows_of(const at::Tensor& x) {
    return x.reshape({-1, x.size(-1)});
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor delta = rows_of(gradients[0]);
    variable_list results(4);
    if (context->needs_input_grad(0))
      results[0] = delta.mm(saved[1]).view(saved[0].sizes());
    if (context->needs_input_grad(1))
      results[1] = delta.t().mm(rows_of(saved[0]));
    if (needs_bias(context)) results[2] = delta.sum(0);
    return results;
  }
};

struct ConvShape {
  std::int64_t images, out_height, out_width;
  std::int64_t pixels() const { return out_height * out_width; }
};

std::int64_t out_size(std::int64_t size, std::int64_t kernel,
                      const ConvGeometry& geometry, std::size_t axis) {
  return (size + 2 * geometry.padding[axis] -
          geometry.dilation[axis] * (kernel - 1) - 1) /
             geometry.stride[axis] +
         1;
}

ConvShape shape_of(const at::Tensor& x, const at::Tensor& weight,
                   const ConvGeometry& geometry) {
  return {x.size(0), out_size(x.size(2), weight.size(2), geometry, 0),
          out_size(x.size(3), weight.size(3), geometry, 1)};
}

// A convolution that is a product of matrices as it stands.
bool is_pointwise(const at::Tensor& weight, const ConvGeometry& geometry) {
  return weight.size(2) == 1 && weight.size(3) == 1 &&
         geometry.stride == std::array<std::int64_t, 2>{1, 1} &&
         geometry.padding == std::array<std::int64_t, 2>{0, 0};
}

cast_kernels::Im2col unfolding(const at::Tensor& x, const at::Tensor& weight,
                               const ConvGeometry& geometry,
                               const ConvShape& shape) {
  cast_kernels::Im2col work;
  work.channels = x.size(1);
  work.height = x.size(2);
  work.width = x.size(3);
  work.image_stride = x.stride(0);
  work.channel_stride = x.stride(1);
  work.row_stride = x.stride(2);
  work.column_stride = x.stride(3);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    work.kernel[axis] = weight.size(static_cast<std::int64_t>(axis) + 2);
    work.stride[axis] = geometry.stride[axis];
    work.padding[axis] = geometry.padding[axis];
    work.dilation[axis] = geometry.dilation[axis];
  }
  work.out_height = shape.out_height;
  work.out_width = shape.out_width;
  return work;
}

// One forward convolution, a few images at a time.
class Int8Unfolded {
 public:
  Int8Unfolded(const at::Tensor& x, const at::Tensor& weight,
               const at::Tensor& bias, const ConvGeometry& geometry,
               bool by_channel)
      : x_(x),
        bias_(bias),
        shape_(shape_of(x, weight, geometry)),
        is_last_(x.is_contiguous(at::MemoryFormat::ChannelsLast) &&
                 !x.is_contiguous()),
        has_groups_(is_last_ && x.size(1) % kColumnUnit == 0),
        is_pointwise_(is_pointwise(weight, geometry) && has_groups_),
        amax_(amax_of(x)),
        work_(unfolding(x, weight, geometry, shape_)) {
    const at::Tensor ordered =
        has_groups_ ? weight.permute({0, 2, 3, 1}) : weight;
    const std::int64_t columns = work_.columns();
    inner_ = has_groups_ ? columns : round_up(columns, kInnerUnit);
    weight_ = quantised_weight(ordered.reshape({weight.size(0), columns}),
                               by_channel, inner_);
    outputs_ = weight.size(0);
  }

  at::Tensor result() {
    at::Tensor y = at::empty(
        {shape_.images, outputs_, shape_.out_height, shape_.out_width},
        x_.options().memory_format(is_last_ ? at::MemoryFormat::ChannelsLast
                                            : at::MemoryFormat::Contiguous));
    const std::int64_t at_once = std::clamp<std::int64_t>(
        kUnfoldedElements / std::max<std::int64_t>(1, shape_.pixels() * inner_),
        1, shape_.images);
    for (std::int64_t first = 0; first < shape_.images; first += at_once)
      convolve(first, std::min(at_once, shape_.images - first), y);
    return y;
  }

 private:
  void convolve(std::int64_t first, std::int64_t images, at::Tensor& y) {
    const at::Tensor some = x_.narrow(0, first, images);
    const std::int64_t rows = images * shape_.pixels();
    const Int8Matrix left =
        is_pointwise_ ? pixels_of(some, rows) : unfolded(some, images, rows);
    multiply(left, weight_, bias_,
             {rows, outputs_, y.narrow(0, first, images).data_ptr(),
              is_last_ ? 0 : shape_.pixels()});
  }

  Int8Matrix pixels_of(const at::Tensor& some, std::int64_t rows) const {
    const at::Tensor matrix =
        some.permute({0, 2, 3, 1}).reshape({rows, some.size(1)});
    return quantised(matrix, amax_, std::max(rows, kLeastRows), inner_);
  }

  Int8Matrix unfolded(const at::Tensor& some, std::int64_t images,
                      std::int64_t rows) {
    const Told told("sheaf::im2col");
    const std::int64_t padded = std::max(rows, kLeastRows);
    at::Tensor values =
        at::empty({padded, inner_}, x_.options().dtype(at::kChar));
    if (padded > rows) values.narrow(0, rows, padded - rows).zero_();
    work_.from = some.data_ptr();
    work_.images = images;
    work_.is_channels_last = has_groups_;
    work_.amax = amax_.data_ptr<float>();
    work_.to = values.data_ptr<std::int8_t>();
    work_.to_columns = inner_;
    cast_kernels::im2col(work_, stream_of(x_));
    return {values, amax_};
  }

  const at::Tensor x_;
  const at::Tensor bias_;
  const ConvShape shape_;
  const bool is_last_;       // channels are, in memory
  const bool has_groups_;    // and are read in eights
  const bool is_pointwise_;  // nothing is unfolded
  const at::Tensor amax_;
  cast_kernels::Im2col work_;
  Int8Matrix weight_;
  std::int64_t inner_ = 0;
  std::int64_t outputs_ = 0;
};

// Any strides would do for reading, but the largest magnitude is found in what
// lies together.
at::Tensor dense(const at::Tensor& x) {
  return x.is_contiguous(at::MemoryFormat::ChannelsLast) ? x : x.contiguous();
}

struct Int8Conv2d : torch::autograd::Function<Int8Conv2d> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight,
                            const OptionalTensor& bias,
                            const ConvGeometry& geometry, bool by_channel) {
    context->save_for_backward({x, weight});
    keep(context, geometry);
    return Int8Unfolded(dense(x), weight, bias_of(context, bias), geometry,
                        by_channel)
        .result();
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const ConvGeometry& geometry = kept<ConvGeometry>(context);
    const std::vector<std::int64_t> bias_sizes{saved[1].size(0)};
    const std::array<bool, 3> mask{context->needs_input_grad(0),
                                   context->needs_input_grad(1),
                                   needs_bias(context)};
    const auto results = at::convolution_backward(
        gradients[0], saved[0], saved[1],
        c10::OptionalIntArrayRef(c10::IntArrayRef(bias_sizes)), geometry.stride,
        geometry.padding, geometry.dilation,
        /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1, mask);
    return {std::get<0>(results),
            std::get<1>(results),
            std::get<2>(results),
            {},
            {}};
  }
};

}  // namespace

bool has_integer_product() {
  using namespace at;
  using namespace sheaf_no_int_mm;
  const at::Tensor* none = nullptr;
  return !std::is_same_v<decltype(_int_mm(*none, *none)), Nothing>;
}

at::Tensor int8_linear(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, bool scales_by_channel) {
  const c10::DeviceGuard on_device(x.device());
  const Told told("sheaf::int8_linear", next_gradient_node());
  return Int8Linear::apply(x, weight, given(bias), scales_by_channel);
}

std::int64_t unfolded_elements(const at::Tensor& x, const at::Tensor& weight,
                               const ConvGeometry& geometry) {
  return shape_of(x, weight, geometry).pixels() *
         (weight.numel() / std::max<std::int64_t>(1, weight.size(0)));
}

at::Tensor int8_conv2d(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, const ConvGeometry& geometry,
                       bool scales_by_channel) {
  const c10::DeviceGuard on_device(x.device());
  const Told told("sheaf::int8_conv2d", next_gradient_node());
  return Int8Conv2d::apply(x, weight, given(bias), geometry, scales_by_channel);
}

}  // namespace sheaf::parallel
