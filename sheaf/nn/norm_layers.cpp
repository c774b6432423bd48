#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/nn/layer.hpp"
#include "sheaf/nn/local_contrast.hpp"

namespace sheaf::nn {
namespace {

template <class Holder>
Layer make_batchnorm_of(const Arguments& a, std::int64_t features) {
  return layer_of(Holder(torch::nn::BatchNormOptions(features)
                             .eps(a.real("eps"))
                             .momentum(a.real("momentum"))
                             .affine(a.flag("affine"))));
}

// BatchNorm1d for vectors and sequences, BatchNorm2d for images, depending on
// the sample shape.
Layer make_batchnorm(const Arguments& a, const SampleShape& input) {
  const auto features = inferred_size(a, "features", input, 0);
  if (a.text("axes") == kInferred && !input)
    a.refuse("axes",
             "given, nor is the network's 'input'; set axes to 0 for "
             "vectors, 1 for sequences or 2 for images");
  const std::int64_t axes = a.text("axes") == kInferred
                                ? static_cast<std::int64_t>(input->size()) - 1
                                : a.integer("axes", 0);
  if (axes <= 1) return make_batchnorm_of<torch::nn::BatchNorm1d>(a, features);
  if (axes == 2) return make_batchnorm_of<torch::nn::BatchNorm2d>(a, features);
  a.refuse("axes", "0, 1 or 2");
}

Layer make_layernorm(const Arguments& a, const SampleShape& input) {
  std::vector<std::int64_t> shape;
  if (a.text("shape") == kInferred)
    shape = {inferred_size(a, "shape", input, -1)};
  else
    shape = a.integers("shape");
  return layer_of(torch::nn::LayerNorm(
      torch::nn::LayerNormOptions(shape).eps(a.real("eps"))));
}

Layer make_groupnorm(const Arguments& a, const SampleShape& input) {
  const auto channels = inferred_size(a, "channels", input, 0);
  if (channels % a.integer("groups") != 0)
    a.refuse("groups", concat("a divisor of the ", channels, " channels"));
  return layer_of(torch::nn::GroupNorm(
      torch::nn::GroupNormOptions(a.integer("groups"), channels)
          .eps(a.real("eps"))));
}

Layer make_lcn(const Arguments& a, const SampleShape& input) {
  const auto kernel = a.integer("kernel");
  if (kernel % 2 == 0) a.refuse("kernel", "odd");
  if (a.real("floor") < 0) a.refuse("floor", "0 or more");
  return layer_of(LocalContrastNorm(LocalContrastNormOptions{
      inferred_size(a, "channels", input, 0), kernel, a.real("floor")}));
}

Layer make_dropout(const Arguments& a, const SampleShape&) {
  return layer_of(torch::nn::Dropout(a.probability("p")));
}

Layer make_dropout2d(const Arguments& a, const SampleShape&) {
  return layer_of(torch::nn::Dropout2d(a.probability("p")));
}

}  // namespace

std::vector<LayerKind> norm_layers() {
  return {
      {"batchnorm",
       {{"eps", "1e-5"},
        {"momentum", "0.1"},
        {"affine", "true"},
        {"features", kInferred},
        {"axes", kInferred}},
       make_batchnorm},
      {"layernorm", {{"eps", "1e-5"}, {"shape", kInferred}}, make_layernorm},
      {"groupnorm",
       {{"groups", kRequired}, {"eps", "1e-5"}, {"channels", kInferred}},
       make_groupnorm},
      {"lcn",
       {{"kernel", "3"}, {"floor", "0.01"}, {"channels", kInferred}},
       make_lcn},
      {"dropout", {{"p", "0.5"}}, make_dropout},
      {"dropout2d", {{"p", "0.5"}}, make_dropout2d}};
}

}  // namespace sheaf::nn
