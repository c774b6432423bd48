#include <torch/torch.h>

#include "sheaf/nn/kinds.hpp"

// VGG: stages of 3x3 convolutions, each followed by 2x2 max pooling, then two
// hidden linear layers and the output layer. Parameter names and initialization
// are those of torchvision.
namespace sheaf::nn {
namespace {

using Stages = std::vector<int>;  // number of convolutions per stage

class Vgg : public Network {
 public:
  Vgg(const Stages& stages, const Arguments& arguments)
      : pool_(arguments.integer("pool")),
        is_channels_last_(arguments.flag("channels_last")) {
    const std::int64_t channels = add_features(stages, arguments);
    add_classifier(channels * pool_ * pool_, arguments);
    start();
    if (is_channels_last_) use_channels_last(*this);
  }

  at::Tensor forward(at::Tensor input) override {
    if (is_channels_last_)
      input = input.contiguous(at::MemoryFormat::ChannelsLast);
    const auto x = features_->forward(input);
    return classifier_->forward(
        torch::adaptive_avg_pool2d(x, {pool_, pool_}).flatten(1));
  }

 private:
  // The width doubles with each stage, up to eight times the first.
  std::int64_t add_features(const Stages& stages, const Arguments& arguments) {
    std::int64_t in = arguments.integer("in_channels");
    const std::int64_t width = arguments.integer("width");
    const bool has_norm = arguments.flag("batchnorm");
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const std::int64_t out = width << std::min<std::size_t>(stage, 3);
      for (int i = 0; i < stages[stage]; ++i) {
        features_->push_back(
            torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1)));
        if (has_norm) features_->push_back(torch::nn::BatchNorm2d(out));
        features_->push_back(
            torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
        in = out;
      }
      features_->push_back(
          torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)));
    }
    register_module("features", features_);
    return in;
  }

  void add_classifier(std::int64_t in, const Arguments& arguments) {
    const std::int64_t hidden = arguments.integer("hidden");
    const double dropout = arguments.probability("dropout");
    for (const std::int64_t from : {in, hidden}) {
      classifier_->push_back(torch::nn::Linear(from, hidden));
      classifier_->push_back(
          torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
      classifier_->push_back(torch::nn::Dropout(dropout));
    }
    classifier_->push_back(
        torch::nn::Linear(hidden, arguments.integer("classes")));
    register_module("classifier", classifier_);
  }

  void start() {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* conv = module->as<torch::nn::Conv2dImpl>()) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut,
                                         torch::kReLU);
        torch::nn::init::zeros_(conv->bias);
      } else if (auto* linear = module->as<torch::nn::LinearImpl>()) {
        torch::nn::init::normal_(linear->weight, 0, 0.01);
        torch::nn::init::zeros_(linear->bias);
      }
    }
  }

  std::int64_t pool_;
  bool is_channels_last_;
  torch::nn::Sequential features_, classifier_;
};

}  // namespace

std::vector<NetworkKind> vgg_kinds() {
  std::vector<NetworkKind> kinds;
  for (const auto& [name, stages] :
       {std::pair<std::string_view, Stages>{"vgg11", {1, 1, 2, 2, 2}},
        {"vgg16", {2, 2, 3, 3, 3}}})
    kinds.push_back({name,
                     {{"classes", "1000"},
                      {"in_channels", "3"},
                      {"width", "64"},
                      {"hidden", "4096"},
                      {"pool", "7"},
                      {"dropout", "0.5"},
                      {"batchnorm", "false"},
                      {"channels_last", "false"}},
                     [stages = stages](const Arguments& arguments) {
                       return std::make_shared<Vgg>(stages, arguments);
                     }});
  return kinds;
}

}  // namespace sheaf::nn
