#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/nn/kinds.hpp"
#include "sheaf/nn/local_contrast.hpp"
#include "sheaf/nn/pretrainable.hpp"

// A stack of sparse autoencoders. Each stage has a locally connected layer, L2
// pooling and local contrast normalization; a linear classifier follows the
// last stage. After Le et al., "Building high-level features using large scale
// unsupervised learning" (2012).
namespace sheaf::nn {
namespace {

class Gb : public Network, public Pretrainable {
 public:
  explicit Gb(const Arguments& arguments) {
    pooling_.kernel = arguments.integer("pool");
    pooling_.eps = arguments.real("eps");
    std::int64_t channels = arguments.integer("in_channels");
    Pair image = arguments.axes("image_size", 2);
    for (const std::int64_t kernel : arguments.integers("kernels")) {
      image = add_stage(arguments, channels, image, kernel);
      channels = arguments.integer("maps");
    }
    classifier_ = register_module(
        "classifier", torch::nn::Linear(torch::nn::LinearOptions(
                                            channels * image[0] * image[1],
                                            arguments.integer("classes"))
                                            .bias(arguments.flag("bias"))));
  }

  at::Tensor forward(at::Tensor input) override {
    return classifier_(seen_by_classifier(input).flatten(1));
  }

  std::size_t stages() const override { return filters_.size(); }

  at::Tensor run_to(std::size_t stage, at::Tensor images) override {
    for (std::size_t i = 0; i < stage; ++i)
      images = norms_.at(i)(pool(i, filters_.at(i)(images)));
    return images;
  }

  LocallyConnected2d filters(std::size_t stage) override {
    return filters_.at(stage);
  }

  at::Tensor pool(std::size_t, const at::Tensor& filtered) override {
    return l2_pool2d(filtered, pooling_);
  }

  void train_classifier_alone(bool is_on) override { is_alone_ = is_on; }

  std::vector<at::Tensor> classifier_parameters() const override {
    return classifier_->parameters();
  }

 private:
  // Returns the size of the output image.
  Pair add_stage(const Arguments& arguments, std::int64_t channels,
                 const Pair& image, std::int64_t kernel) {
    LocallyConnectedOptions options{
        channels, arguments.integer("maps"), image, {kernel, kernel}};
    const std::string number = std::to_string(filters_.size() + 1);
    filters_.push_back(
        register_module("filters" + number, LocallyConnected2d(options)));
    normalize_filters_(filters_.back()->weight);
    norms_.push_back(register_module(
        "norm" + number, LocalContrastNorm(LocalContrastNormOptions{
                             options.out_channels, arguments.integer("norm"),
                             arguments.real("floor")})));
    Pair output = filters_.back()->output_image();
    for (std::int64_t& side : output) side -= pooling_.kernel - 1;
    if (output[0] < 1 || output[1] < 1)
      arguments.refuse("image_size", "large enough for all of 'kernels'");
    return output;
  }

  at::Tensor seen_by_classifier(const at::Tensor& images) {
    const at::AutoGradMode gradients(at::GradMode::is_enabled() && !is_alone_);
    return run_to(stages(), images);
  }

  L2PoolOptions pooling_;
  std::vector<LocallyConnected2d> filters_;
  std::vector<LocalContrastNorm> norms_;
  torch::nn::Linear classifier_{nullptr};
  bool is_alone_ = false;
};

}  // namespace

void normalize_filters(Pretrainable& network) {
  for (std::size_t i = 0; i < network.stages(); ++i)
    normalize_filters_(network.filters(i)->weight);
}

NetworkKind gb_kind() {
  return {"gb",
          {{"classes", "10"},
           {"in_channels", "1"},
           {"image_size", "28"},
           {"kernels", "4-3-3"},
           {"maps", "8"},
           {"pool", "3"},
           {"norm", "3"},
           {"eps", "1e-8"},
           {"floor", "0.01"},
           {"bias", "false"}},
          [](const Arguments& arguments) {
            return std::make_shared<Gb>(arguments);
          }};
}

}  // namespace sheaf::nn
