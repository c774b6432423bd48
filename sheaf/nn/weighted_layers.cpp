#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/nn/layer.hpp"
#include "sheaf/nn/locally_connected.hpp"

namespace sheaf::nn {
namespace {

Layer make_linear(const Arguments& a, const SampleShape& input) {
  return layer_of(torch::nn::Linear(
      torch::nn::LinearOptions(inferred_size(a, "in_features", input, -1),
                               a.integer("out_features"))
          .bias(a.flag("bias"))));
}

// `axes` is 1 or 2.
template <class Conv, class Options, std::size_t axes>
Layer make_conv(const Arguments& a, const SampleShape& input) {
  const auto list = [&](std::string_view name, std::int64_t least) {
    return torch::ExpandingArray<axes>(a.axes(name, axes, least));
  };
  return layer_of(Conv(Options(inferred_size(a, "in_channels", input, 0),
                               a.integer("out_channels"), list("kernel", 1))
                           .stride(list("stride", 1))
                           .padding(list("padding", 0))
                           .dilation(list("dilation", 1))
                           .groups(a.integer("groups"))
                           .bias(a.flag("bias"))));
}

Layer make_conv_transpose(const Arguments& a, const SampleShape& input) {
  const auto list = [&](std::string_view name, std::int64_t least) {
    return torch::ExpandingArray<2>(a.axes(name, 2, least));
  };
  return layer_of(torch::nn::ConvTranspose2d(
      torch::nn::ConvTranspose2dOptions(
          inferred_size(a, "in_channels", input, 0), a.integer("out_channels"),
          list("kernel", 1))
          .stride(list("stride", 1))
          .padding(list("padding", 0))
          .output_padding(list("output_padding", 0))
          .bias(a.flag("bias"))));
}

Layer make_locally_connected(const Arguments& a, const SampleShape& input) {
  LocallyConnectedOptions options;
  options.in_channels = inferred_size(a, "in_channels", input, 0);
  options.out_channels = a.integer("out_channels");
  options.image = a.text("image") == kInferred
                      ? Pair{inferred_size(a, "image", input, 1),
                             inferred_size(a, "image", input, 2)}
                      : a.axes("image", 2);
  options.kernel = a.axes("kernel", 2);
  options.stride = a.axes("stride", 2);
  options.padding = a.axes("padding", 2, 0);
  options.bias = a.flag("bias");
  return layer_of(LocallyConnected2d(options));
}

Layer make_embedding(const Arguments& a, const SampleShape&) {
  return layer_of(torch::nn::Embedding(a.integer("count"), a.integer("size")));
}

// Input [batch, length, features]; returns the outputs of all steps, or only of
// the last one.
template <class Holder, class Options>
Layer make_recurrent(const Arguments& a, const SampleShape& input) {
  Holder module(
      Options(inferred_size(a, "in_features", input, -1), a.integer("hidden"))
          .num_layers(a.integer("layers"))
          .bidirectional(a.flag("bidirectional"))
          .dropout(a.probability("dropout"))
          .batch_first(true));
  const bool is_last_only = a.flag("last");
  return {module.ptr(), [module, is_last_only](const at::Tensor& x) mutable {
            const at::Tensor output = std::get<0>(module(x));
            return is_last_only ? output.select(1, -1) : output;
          }};
}

}  // namespace

std::vector<LayerKind> weighted_layers() {
  const std::vector<ArgumentSpec> conv{{"out_channels", kRequired},
                                       {"kernel", kRequired},
                                       {"stride", "1"},
                                       {"padding", "0"},
                                       {"dilation", "1"},
                                       {"groups", "1"},
                                       {"bias", "true"},
                                       {"in_channels", kInferred}};
  const std::vector<ArgumentSpec> recurrent{
      {"hidden", kRequired}, {"layers", "1"},   {"bidirectional", "false"},
      {"dropout", "0"},      {"last", "false"}, {"in_features", kInferred}};
  using namespace torch::nn;
  return {{"linear",
           {{"out_features", kRequired},
            {"bias", "true"},
            {"in_features", kInferred}},
           make_linear},
          {"conv1d", conv, make_conv<Conv1d, Conv1dOptions, 1>},
          {"conv2d", conv, make_conv<Conv2d, Conv2dOptions, 2>},
          {"conv_transpose2d",
           {{"out_channels", kRequired},
            {"kernel", kRequired},
            {"stride", "1"},
            {"padding", "0"},
            {"output_padding", "0"},
            {"bias", "true"},
            {"in_channels", kInferred}},
           make_conv_transpose},
          {"locally_connected",
           {{"out_channels", kRequired},
            {"kernel", kRequired},
            {"stride", "1"},
            {"padding", "0"},
            {"bias", "false"},
            {"in_channels", kInferred},
            {"image", kInferred}},
           make_locally_connected},
          {"embedding",
           {{"count", kRequired}, {"size", kRequired}},
           make_embedding},
          {"lstm", recurrent, make_recurrent<LSTM, LSTMOptions>},
          {"gru", recurrent, make_recurrent<GRU, GRUOptions>}};
}

}  // namespace sheaf::nn
