#include "sheaf/parallel/precision/int8_product.hpp"

#include <ATen/Functions.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "sheaf/parallel/precision/int8_matrix.hpp"
#include "sheaf/tensor/groups/keep.hpp"

namespace sheaf::parallel {
namespace int8 {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The sequence number of the next autograd node; -1 if autograd is off.
std::int64_t next_gradient_node() {
  return at::GradMode::is_enabled()
             ? static_cast<std::int64_t>(at::sequence_number::peek())
             : -1;
}

// libtorch's type or std::optional, depending on the libtorch version.
using OptionalTensor =
    decltype(std::declval<c10::IValue&>().toOptional<at::Tensor>());

// Undefined tensors cannot be passed to autograd functions.
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

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, bool by_channel) {
  const std::int64_t inner = round_up(x.size(1), kInnerUnit);
  const Int8Matrix left =
      quantized(x, amax_of(x), std::max(x.size(0), kLeastRows), inner);
  const Int8Matrix right = quantized_weight(weight, by_channel, inner);
  at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
  multiply(left, right, bias, {y.size(0), y.size(1), y.data_ptr(), 0});
  return y;
}

struct Int8Linear : torch::autograd::Function<Int8Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight,
                            const OptionalTensor& bias, bool by_channel) {
    context->save_for_backward({x, weight});
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    // Not recorded as a view, so that in-place operations on the result work.
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

// Convolutions: images are unfolded into rows of a matrix.

// Maximum number of elements that are unfolded at once.
constexpr std::int64_t kUnfoldedElements = std::int64_t{1} << 30;

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

// Whether the convolution is a matrix product without unfolding.
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

// One forward convolution, computed for a few images at a time.
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
    weight_ = quantized_weight(ordered.reshape({weight.size(0), columns}),
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
    return quantized(matrix, amax_, std::max(rows, kLeastRows), inner_);
  }

  Int8Matrix unfolded(const at::Tensor& some, std::int64_t images,
                      std::int64_t rows) {
    const RecordedCall recorded("sheaf::im2col");
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
  const bool is_last_;       // x is channels-last
  const bool has_groups_;    // channels-last, in groups of eight
  const bool is_pointwise_;  // no unfolding needed
  const at::Tensor amax_;
  cast_kernels::Im2col work_;
  Int8Matrix weight_;
  std::int64_t inner_ = 0;
  std::int64_t outputs_ = 0;
};

// The kernels support any strides, but amax needs contiguous memory.
at::Tensor dense(const at::Tensor& x) {
  return x.is_contiguous(at::MemoryFormat::ChannelsLast) ? x : x.contiguous();
}

struct Int8Conv2d : torch::autograd::Function<Int8Conv2d> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight,
                            const OptionalTensor& bias,
                            const ConvGeometry& geometry, bool by_channel) {
    context->save_for_backward({x, weight});
    tensor::keep(context, geometry);
    return Int8Unfolded(dense(x), weight, bias_of(context, bias), geometry,
                        by_channel)
        .result();
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const ConvGeometry& geometry = tensor::kept<ConvGeometry>(context);
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
}  // namespace int8

at::Tensor int8_linear(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, bool scales_by_channel) {
  const c10::DeviceGuard on_device(x.device());
  const int8::RecordedCall recorded("sheaf::int8_linear",
                                    int8::next_gradient_node());
  return int8::Int8Linear::apply(x, weight, int8::given(bias),
                                 scales_by_channel);
}

std::int64_t unfolded_elements(const at::Tensor& x, const at::Tensor& weight,
                               const ConvGeometry& geometry) {
  return int8::shape_of(x, weight, geometry).pixels() *
         (weight.numel() / std::max<std::int64_t>(1, weight.size(0)));
}

at::Tensor int8_conv2d(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, const ConvGeometry& geometry,
                       bool scales_by_channel) {
  const c10::DeviceGuard on_device(x.device());
  const int8::RecordedCall recorded("sheaf::int8_conv2d",
                                    int8::next_gradient_node());
  return int8::Int8Conv2d::apply(x, weight, int8::given(bias), geometry,
                                 scales_by_channel);
}

}  // namespace sheaf::parallel
