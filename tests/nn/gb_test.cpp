#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/nn/network.hpp"
#include "sheaf/nn/pretrainable.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::nn {
namespace {

using Texts = std::map<std::string, std::string>;

TEST(Convnet, HasTheSizesOfItsName) {
  const auto network = make_network({"convnet", {}, {}});
  EXPECT_EQ(count_parameters(*network),
            20 * 25 + 50 * 20 * 25 + 800 * 500 + 500 * 10);
  EXPECT_EQ(network->forward(torch::randn({2, 1, 28, 28})).sizes(),
            (Pair{2, 10}));
  const auto color = make_network({"convnet",
                                   {{"in_channels", "3"},
                                    {"image_size", "32"},
                                    {"classes", "7"},
                                    {"bias", "true"}},
                                   {}});
  EXPECT_EQ(color->forward(torch::randn({2, 3, 32, 32})).sizes(), (Pair{2, 7}));
  expect_throws<UsageError>(
      [] {
        make_network({"convnet", {{"image_size", "12"}}, {}});
      },
      {"'12'", "16"});
}

TEST(Gb, IsItsListOfLayers) {
  const LayerSpec pool{"l2_pool", {}}, norm{"lcn", {}};
  const auto filters = [](const char* kernel) {
    return LayerSpec{"locally_connected",
                     {{"out_channels", "8"}, {"kernel", kernel}}};
  };
  const auto listed =
      make_network({"",
                    {{"input", "1x28x28"}},
                    {filters("4"),
                     pool,
                     norm,
                     filters("3"),
                     pool,
                     norm,
                     filters("3"),
                     pool,
                     norm,
                     {"flatten", {}},
                     {"linear", {{"out_features", "10"}, {"bias", "false"}}}}});
  const auto named = make_network({"gb", {}, {}});
  ASSERT_EQ(named->parameters().size(), listed->parameters().size());
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < named->parameters().size(); ++i)
      listed->parameters()[i].copy_(named->parameters()[i]);
  }
  const auto x = torch::randn({2, 1, 28, 28});
  EXPECT_EQ(named->forward(x).sizes(), (Pair{2, 10}));
  EXPECT_TRUE(torch::equal(named->forward(x), listed->forward(x)));
}

TEST(Gb, StagesCanBeHad) {
  const auto network = make_network(
      {"gb", {{"image_size", "16"}, {"maps", "4"}, {"kernels", "3-2"}}, {}});
  auto& stack = dynamic_cast<Pretrainable&>(*network);
  ASSERT_EQ(stack.stages(), 2u);
  const auto x = torch::randn({3, 1, 16, 16});
  EXPECT_TRUE(torch::equal(stack.run_to(0, x), x));
  const auto seen = stack.run_to(1, x);
  EXPECT_EQ(seen.sizes(), (Pair{3, 4, 12, 12}));
  EXPECT_EQ(stack.filters(1)->options().image, (Pair{12, 12}));
  EXPECT_EQ(stack.pool(1, stack.filters(1)(seen)).sizes(), (Pair{3, 4, 9, 9}));
  const auto lengths = stack.filters(1)->weight.detach().norm(2, {1});
  EXPECT_TRUE(torch::allclose(lengths, torch::ones_like(lengths)));
}

TEST(Gb, TheClassifierCanLearnAlone) {
  const auto network =
      make_network({"gb", {{"image_size", "16"}, {"maps", "2"}}, {}});
  auto& stack = dynamic_cast<Pretrainable&>(*network);
  const auto x = torch::randn({2, 1, 16, 16});
  for (const bool is_alone : {true, false}) {
    stack.train_classifier_alone(is_alone);
    network->forward(x).sum().backward();
    EXPECT_TRUE(stack.classifier_parameters()[0].grad().defined());
    EXPECT_EQ(stack.filters(0)->weight.grad().defined(), !is_alone);
  }
}

TEST(Gb, InvalidArgumentsAreErrors) {
  const auto make = [](const Texts& arguments) {
    return [=] { make_network({"gb", arguments, {}}); };
  };
  expect_throws<UsageError>(make({{"image_size", "6"}}), {"[3, 3]"});
  expect_throws<UsageError>(make({{"image_size", "5"}, {"kernels", "4"}}),
                            {"'5'", "kernels"});
  expect_throws<UsageError>(make({{"norm", "4"}}), {"odd"});
}

}  // namespace
}  // namespace sheaf::nn
