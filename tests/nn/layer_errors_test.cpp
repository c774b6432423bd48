#include "sheaf/nn/layer_errors.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::nn {
namespace {

std::string error_for(const NetworkSpec& spec, const at::Tensor& input) {
  LayerErrors network(make_network(spec));
  return error_of<UsageError>([&] { network.forward(input); });
}

TEST(LayerErrors, NameALinearLayer) {
  EXPECT_EQ(error_for({"lenet"}, torch::zeros({64, 1, 24, 24})),
            "layer fc1 (Linear 400 -> 120): mat1 and mat2 shapes cannot be "
            "multiplied (64x256 and 400x120); its input was [64, 256]");
}

TEST(LayerErrors, NameAConvolution) {
  const std::string text = error_for({"lenet"}, torch::zeros({2, 3, 28, 28}));
  EXPECT_EQ(text.rfind("layer conv1 (Conv2d(1, 6, kernel_size=[5, 5]", 0), 0u)
      << text;
  EXPECT_NE(text.find("; its input was [2, 3, 28, 28]"), text.npos) << text;
  EXPECT_EQ(text.find('\n'), text.npos) << text;
}

TEST(LayerErrors, NameTheLayerBeforeAnOperatorWithoutWeights) {
  const std::string text = error_for({"lenet"}, torch::zeros({2, 1, 1, 1}));
  EXPECT_EQ(text.rfind("max_pool2d after layer conv1 (Conv2d(", 0), 0u) << text;
}

TEST(LayerErrors, NameALayerOfAList) {
  const NetworkSpec spec{
      "",
      {},
      {{"linear", {{"in_features", "8"}, {"out_features", "4"}}},
       {"relu"},
       {"linear", {{"in_features", "5"}, {"out_features", "2"}}}}};
  const std::string text = error_for(spec, torch::zeros({3, 8}));
  EXPECT_EQ(text.rfind("layer 2 (Linear 5 -> 2): ", 0), 0u) << text;
  EXPECT_NE(text.find("; its input was [3, 4]"), text.npos) << text;
}

TEST(LayerErrors, NameAnEmbedding) {
  const NetworkSpec spec{"bert-base",
                         {{"vocabulary", "20"},
                          {"hidden", "8"},
                          {"layers", "1"},
                          {"heads", "2"},
                          {"positions", "9"},
                          {"intermediate", "16"}},
                         {}};
  const std::string text =
      error_for(spec, torch::full({1, 4}, 20, torch::kLong));
  EXPECT_NE(text.find("word_embeddings (Embedding("), text.npos) << text;
}

// A batch with a new sample shape is checked again.
TEST(LayerErrors, ChangeNothingWhereTheNetworkFits) {
  const auto plain = make_network({"lenet"});
  LayerErrors network(plain);
  const auto input = torch::randn({4, 1, 28, 28});
  const auto expected = plain->forward(input);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(torch::equal(network.forward(input), expected));
  expect_throws<UsageError>(
      [&] {
        network.forward(torch::zeros({4, 1, 24, 24}));
      },
      {"layer fc1"});
  EXPECT_TRUE(torch::equal(network.forward(input), expected));
}

}  // namespace
}  // namespace sheaf::nn
