#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/nn/network.hpp"
#include "sheaf/tensor/files/state_dict.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::nn {
namespace {

using Layers = std::vector<LayerSpec>;

std::shared_ptr<Network> make(const std::string& input, const Layers& layers) {
  if (input.empty()) return make_network({"", {}, layers});
  return make_network({"", {{"input", input}}, layers});
}

std::vector<std::int64_t> output_shape(const std::string& input,
                                       const Layers& layers,
                                       const at::Tensor& batch) {
  const auto output = make(input, layers)->forward(batch);
  return output.sizes().vec();
}

TEST(Layered, LeNetOutOfLayersIsLeNet) {
  const LayerSpec relu{"relu", {}}, pool{"maxpool", {{"kernel", "2"}}};
  const auto listed = make(
      "1x28x28",
      {{"conv2d", {{"out_channels", "6"}, {"kernel", "5"}, {"padding", "2"}}},
       relu,
       pool,
       {"conv2d", {{"out_channels", "16"}, {"kernel", "5"}}},
       relu,
       pool,
       {"flatten", {}},
       {"linear", {{"out_features", "120"}}},
       relu,
       {"linear", {{"out_features", "84"}}},
       relu,
       {"linear", {{"out_features", "10"}}}});
  const auto named = make_network({"lenet", {}, {}});
  EXPECT_EQ(count_parameters(*listed), 61706);
  auto state = tensor::state_dict(*named);
  const auto names = tensor::state_dict(*listed);
  EXPECT_EQ(names[2].first, "3.weight");  // as in Python's nn.Sequential
  for (std::size_t i = 0; i < state.size(); ++i)
    state[i].first = names[i].first;
  tensor::load_state_dict(*listed, state);
  const auto input = torch::randn({2, 1, 28, 28});
  EXPECT_TRUE(torch::equal(named->forward(input), listed->forward(input)));
}

TEST(Layered, ShapesAreInferred) {
  using Shape = std::vector<std::int64_t>;
  const auto image = torch::randn({2, 3, 8, 8});
  const LayerSpec conv{"conv2d",
                       {{"out_channels", "4"},
                        {"kernel", "3x5"},
                        {"stride", "2"},
                        {"padding", "1x2"}}};
  EXPECT_EQ(output_shape("3x8x8", {conv, {"batchnorm", {}}}, image),
            (Shape{2, 4, 4, 4}));
  EXPECT_EQ(output_shape("3x8x8",
                         {conv,
                          {"groupnorm", {{"groups", "2"}}},
                          {"silu", {}},
                          {"upsample", {}}},
                         image),
            (Shape{2, 4, 8, 8}));
  EXPECT_EQ(
      output_shape("3x8x8",
                   {{"conv_transpose2d",
                     {{"out_channels", "2"}, {"kernel", "2"}, {"stride", "2"}}},
                    {"avgpool", {{"kernel", "4"}}},
                    {"adaptive_avgpool", {}},
                    {"flatten", {}},
                    {"batchnorm", {}},
                    {"linear", {{"out_features", "5"}}},
                    {"log_softmax", {}}},
                   image),
      (Shape{2, 5}));
  EXPECT_EQ(output_shape("6x9",
                         {{"conv1d", {{"out_channels", "4"}, {"kernel", "3"}}},
                          {"batchnorm", {}},
                          {"reshape", {{"shape", "7x4"}}},
                          {"layernorm", {}},
                          {"gru", {{"hidden", "3"}, {"bidirectional", "yes"}}},
                          {"mean", {{"axes", "1"}}},
                          {"leaky_relu", {}},
                          {"dropout", {}}},
                         torch::randn({2, 6, 9})),
            (Shape{2, 6}));
  EXPECT_EQ(output_shape("5",
                         {{"embedding", {{"count", "10"}, {"size", "4"}}},
                          {"lstm", {{"hidden", "3"}, {"last", "true"}}},
                          {"tanh", {}},
                          {"linear", {{"out_features", "2"}}}},
                         torch::randint(0, 10, {2, 5})),
            (Shape{2, 2}));
}

TEST(Layered, WithoutAShapeSizesMustBeGiven) {
  const LayerSpec linear{"linear", {{"out_features", "2"}}};
  expect_throws<UsageError>([&] { make("", {linear}); },
                            {"layer 0 (linear)", "in_features", "1x28x28"});
  const auto network =
      make("", {{"linear", {{"in_features", "3"}, {"out_features", "2"}}}});
  EXPECT_EQ(network->forward(torch::zeros({4, 3})).size(1), 2);
}

TEST(Layered, ShortcutsJoin) {
  const LayerSpec same{"conv2d", {{"out_channels", "2"}, {"kernel", "1"}}};
  const auto network = make("2x3x3", {{"relu", {}},
                                      same,
                                      {"add", {{"from", "-2"}}},
                                      {"concat", {{"from", "0"}}}});
  const auto input = torch::randn({1, 2, 3, 3});
  const auto weights = network->parameters();
  const auto first = torch::relu(input);
  const auto sum = torch::conv2d(first, weights[0], weights[1]) + first;
  EXPECT_TRUE(
      torch::equal(network->forward(input), torch::cat({first, sum}, 1)));
  expect_throws<UsageError>(
      [&] {
        make("2", {{"relu", {}}, {"add", {{"from", "1"}}}});
      },
      {"layer 1 (add)", "before 1"});
  expect_throws<UsageError>(
      [&] {
        make("2", {{"relu", {}}, {"add", {{"from", "-2"}}}});
      },
      {"'-2'"});
}

TEST(Layered, BuildingLeavesNoTrace) {
  const auto network =
      make("3", {{"batchnorm", {}}, {"dropout", {{"p", "0.5"}}}});
  for (const auto& module : network->modules())
    EXPECT_TRUE(module->is_training());
  EXPECT_EQ(network->named_buffers()["0.num_batches_tracked"].item<int>(), 0);
}

// The size of an axis that the samples do not have cannot be inferred.
TEST(Layered, SamplesWithTooFewAxesAreRefused) {
  const LayerSpec local{"locally_connected",
                        {{"out_channels", "2"}, {"kernel", "1"}}};
  EXPECT_EQ(error_of<UsageError>([&] { make("3x2", {local}); }),
            "layer 0 (locally_connected) does not fit samples of [3, 2]");
  const LayerSpec linear{"linear", {{"out_features", "2"}}};
  const LayerSpec mean{"mean", {{"axes", "1"}}};
  EXPECT_EQ(error_of<UsageError>([&] {
              make("3", {mean, linear});
            }),
            "layer 1 (linear) does not fit samples of []");
}

TEST(Layered, MistakesNameTheLayer) {
  const LayerSpec relu{"relu", {}};
  expect_throws<UsageError>(
      [&] {
        make("3", {relu, {"liner", {}}});
      },
      {"layer 1", "did you mean 'linear'"});
  expect_throws<UsageError>(
      [&] {
        make("3", {{"linear", {}}});
      },
      {"layer 0 (linear)", "'out_features'"});
  expect_throws<UsageError>(
      [&] {
        make("3", {{"linear", {{"out_feature", "2"}}}});
      },
      {"did you mean 'out_features'"});
  expect_throws<UsageError>(
      [&] {
        make("3x4x4",
             {relu, {"conv2d", {{"out_channels", "2"}, {"kernel", "9"}}}});
      },
      {"layer 1 (conv2d)", "[3, 4, 4]"});
  EXPECT_EQ(layer_defaults("maxpool").at("stride"), "kernel");
  EXPECT_GE(layer_names().size(), 25u);
}

}  // namespace
}  // namespace sheaf::nn
