#include "sheaf/nn/network.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/files/state_dict.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::nn {
namespace {

using Texts = std::map<std::string, std::string>;

struct NetworkCase {
  NetworkSpec spec;
  at::Tensor input;
  std::vector<std::int64_t> output;
};

// Each network at a size that runs in milliseconds.
std::vector<NetworkCase> small_cases() {
  const auto image = [](std::int64_t channels, std::int64_t size) {
    return torch::randn({2, channels, size, size});
  };
  const Texts bert{{"vocabulary", "20"},  {"hidden", "8"},    {"layers", "2"},
                   {"heads", "2"},        {"positions", "9"}, {"classes", "3"},
                   {"intermediate", "16"}};
  const Texts vgg{{"width", "2"}, {"hidden", "8"}, {"classes", "4"}};
  const Texts tiny{{"width", "4"}, {"classes", "5"}};
  return {
      {{"lenet", {}, {}}, image(1, 28), {2, 10}},
      {{"lenet", {{"image_size", "32"}, {"in_channels", "3"}}, {}},
       image(3, 32),
       {2, 10}},
      {{"mlp", {{"sizes", "12-7-3"}, {"dropout", "0.5"}}, {}},
       torch::randn({2, 3, 4}),
       {2, 3}},
      {{"convnet", {}, {}}, image(1, 28), {2, 10}},
      {{"gb", {{"image_size", "18"}, {"maps", "2"}}, {}},
       image(1, 18),
       {2, 10}},
      {{"unet", {{"width", "2"}, {"norm", "group"}}, {}},
       image(1, 19),
       {2, 2, 19, 19}},
      {{"unet", {{"width", "2"}, {"depth", "1"}, {"classes", "3"}}, {}},
       image(1, 8),
       {2, 3, 8, 8}},
      {{"resnet8", tiny, {}}, image(3, 16), {2, 5}},
      {{"resnet20", tiny, {}}, image(3, 16), {2, 5}},
      {{"resnet18", tiny, {}}, image(3, 64), {2, 5}},
      {{"resnet34", tiny, {}}, image(3, 64), {2, 5}},
      {{"resnet50", tiny, {}}, image(3, 64), {2, 5}},
      {{"resnet101", tiny, {}}, image(3, 64), {2, 5}},
      {{"vgg11", vgg, {}}, image(3, 32), {2, 4}},
      {{"vgg16", vgg, {}}, image(3, 32), {2, 4}},
      {{"bert-base", bert, {}}, torch::randint(0, 20, {2, 7}), {2, 3}},
  };
}

TEST(Network, EveryOneGoesForwardAndBackward) {
  std::set<std::string> seen;
  for (const NetworkCase& c : small_cases()) {
    torch::manual_seed(1);
    const auto network = make_network(c.spec);
    const auto output = network->forward(c.input);
    EXPECT_EQ(output.sizes().vec(), c.output) << c.spec.name;
    output.square().sum().backward();
    for (const auto& item : network->named_parameters())
      EXPECT_TRUE(item.value().grad().defined() &&
                  item.value().grad().isfinite().all().item<bool>())
          << c.spec.name << " " << item.key();
    seen.insert(c.spec.name);
  }
  EXPECT_EQ(seen.size(), network_names().size());
}

TEST(Network, WeightsGoThroughAFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  for (const NetworkCase& c : small_cases()) {
    const auto from = make_network(c.spec), to = make_network(c.spec);
    from->forward(c.input);  // so that running statistics differ too
    tensor::save_state_dict(path, tensor::state_dict(*from));
    tensor::load_state_dict(*to, tensor::load_state_dict_file(path));
    from->eval();
    to->eval();
    EXPECT_TRUE(torch::equal(from->forward(c.input), to->forward(c.input)))
        << c.spec.name;
  }
}

// Published counts; the counts of LeNet, MLP, U-Net and BERT follow from their
// layer sizes.
TEST(Network, ParameterCountsAreTheKnownOnes) {
  const auto count = [](const std::string& name, const Texts& arguments = {}) {
    return count_parameters(*make_network({name, arguments, {}}));
  };
  EXPECT_EQ(count("lenet"), 61706);
  EXPECT_EQ(count("lenet", {{"image_size", "32"}, {"in_channels", "3"}}),
            62006);
  EXPECT_EQ(count("mlp"), 784 * 2048 + 2048 + 2048 * 1024 + 1024 + 1024 * 512 +
                              512 + 512 * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(count("unet"), 482466);
  EXPECT_EQ(count("resnet8"), 78042);
  EXPECT_EQ(count("resnet20"), 272474);
  EXPECT_EQ(count("resnet18"), 11689512);
  EXPECT_EQ(count("resnet50"), 25557032);
  EXPECT_EQ(count("vgg16"), 138357544);
  constexpr std::int64_t kHidden = 768, kWide = 3072;
  constexpr std::int64_t kLayer =
      4 * (kHidden * kHidden + kHidden) +  // query, key, value, output
      2 * kHidden * kWide + kWide + kHidden + 4 * kHidden;
  constexpr std::int64_t kEmbeddings = (30522 + 512 + 2 + 2) * kHidden;
  constexpr std::int64_t kEnds = kHidden * kHidden + kHidden + 2 * kHidden + 2;
  EXPECT_EQ(count("bert-base"), 12 * kLayer + kEmbeddings + kEnds);
}

// Each of the normalizations of a U-Net and of VGG has two numbers per channel.
TEST(Network, NormalizationsAreThere) {
  const auto made = [](const std::string& name, const Texts& arguments) {
    return make_network({name, arguments, {}});
  };
  EXPECT_EQ(count_parameters(*made("unet", {{"norm", "group"}})), 482466);
  const auto unet = made("unet", {{"width", "12"}, {"norm", "group"}});
  std::vector<std::int64_t> groups;
  for (const auto& module : unet->modules())
    if (const auto* norm = module->as<torch::nn::GroupNormImpl>())
      groups.push_back(norm->options.num_groups());
  // Channels: 12, 24, 48, 96, then 48, 24, 12; two stages each.
  EXPECT_EQ(std::count(groups.begin(), groups.end(), 4), 4);
  EXPECT_EQ(std::count(groups.begin(), groups.end(), 8), 10);
  Texts vgg{{"width", "2"}, {"hidden", "8"}, {"pool", "1"}};
  const auto plain = made("vgg11", vgg);
  vgg["batchnorm"] = "true";
  const auto normalized = made("vgg11", vgg);
  EXPECT_EQ(count_parameters(*normalized) - count_parameters(*plain),
            2 * (2 + 4 + 8 + 8 + 16 + 16 + 16 + 16));
  EXPECT_EQ(normalized->named_buffers()["features.1.running_mean"].size(0), 2);
}

// All weights are 1. If all hidden elements are dropped, the bias remains.
TEST(Network, MlpDropsHiddenElementsInTrainingOnly) {
  const auto network =
      make_network({"mlp", {{"sizes", "5-4-3"}, {"dropout", "1"}}, {}});
  for (const auto& weight : network->parameters()) weight.detach().fill_(1);
  const auto input = torch::ones({2, 5});
  EXPECT_TRUE(torch::equal(network->forward(input), torch::ones({2, 3})));
  network->eval();
  EXPECT_TRUE(torch::equal(network->forward(input),
                           torch::full({2, 3}, 4.0 * (5 + 1) + 1)));
}

TEST(Network, ResNetStartsAsPythonsDoes) {
  torch::manual_seed(3);
  const auto network = make_network({"resnet18", {}, {}});
  const auto weights = network->named_parameters();
  // Kaiming initialization: variance 2 / (outputs * kernel area). The estimate
  // of a standard deviation from n samples has the relative error
  // 1 / sqrt(2n): 0.05 % here, so the tolerance is 20 times that.
  const double wanted = std::sqrt(2.0 / (512 * 9));
  EXPECT_NEAR(weights["layer4.0.conv2.weight"].std().item<double>(), wanted,
              0.01 * wanted);
  EXPECT_TRUE(weights["layer1.0.bn2.weight"].eq(1).all().item<bool>());
  const auto zeroed =
      make_network({"resnet8", {{"zero_init_residual", "true"}}, {}});
  EXPECT_TRUE(zeroed->named_parameters()["layer1.0.bn2.weight"]
                  .eq(0)
                  .all()
                  .item<bool>());
}

TEST(Network, ChannelsLastGivesTheSame) {
  for (const std::string name : {"resnet8", "vgg11"}) {
    Texts arguments{{"width", "4"}, {"classes", "3"}};
    const auto plain = make_network({name, arguments, {}});
    arguments["channels_last"] = "true";
    const auto last = make_network({name, arguments, {}});
    tensor::load_state_dict(*last, tensor::state_dict(*plain));
    EXPECT_TRUE(
        last->parameters()[0].is_contiguous(at::MemoryFormat::ChannelsLast));
    plain->eval();
    last->eval();
    const auto input = torch::randn({2, 3, 32, 32});
    // The summation order differs: f32 errors grow with the number of terms,
    // some thousands.
    EXPECT_TRUE(torch::allclose(plain->forward(input), last->forward(input),
                                1e-3, 1e-4));
  }
}

TEST(Network, BertDoesNotSeePadding) {
  const auto network = make_network({"bert-base",
                                     {{"vocabulary", "20"},
                                      {"hidden", "8"},
                                      {"layers", "2"},
                                      {"heads", "2"},
                                      {"intermediate", "16"}},
                                     {}});
  network->eval();
  network->to(torch::kDouble);
  const auto tokens = torch::tensor({{5, 6, 7}});
  const auto padded = torch::tensor({{5, 6, 7, 0, 0}});
  const auto longer = torch::tensor({{5, 6, 7, 8, 0}});
  EXPECT_TRUE(torch::allclose(network->forward(tokens),
                              network->forward(padded), 0, 1e-12));
  EXPECT_FALSE(torch::allclose(network->forward(tokens),
                               network->forward(longer), 0, 1e-12));
  EXPECT_TRUE(network->forward(torch::zeros({1, 3}, torch::kLong))
                  .isfinite()
                  .all()
                  .item<bool>());
  expect_throws<UsageError>(
      [&] {
        network->forward(torch::zeros({1, 600}).to(torch::kLong));
      },
      {"1 to 512", "600", "positions"});
  expect_throws<UsageError>(
      [&] {
        network->forward(torch::zeros({1, 3}));
      },
      {"integers below"});
}

TEST(Network, MistakesAreAnsweredWithTheNearestName) {
  const auto make = [](const std::string& name, const Texts& arguments) {
    return [=] { make_network({name, arguments, {}}); };
  };
  expect_throws<UsageError>(make("resnet05", {}),
                            {"'resnet05'", "did you mean 'resnet50'"});
  expect_throws<UsageError>(make("lenet", {{"clases", "10"}}),
                            {"'clases'", "did you mean 'classes'"});
  expect_throws<UsageError>(make("lenet", {{"classes", "ten"}}),
                            {"'ten'", "classes", "an integer"});
  expect_throws<UsageError>(make("lenet", {{"image_size", "8"}}), {"'8'"});
  expect_throws<UsageError>(make("mlp", {{"sizes", "5"}}), {"'5'", "784-10"});
  expect_throws<UsageError>(make("mlp", {{"activation", "rel"}}),
                            {"did you mean 'relu'"});
  expect_throws<UsageError>(make("mlp", {{"dropout", "1.5"}}), {"0 to 1"});
  expect_throws<UsageError>(make("vgg11", {{"batchnorm", "maybe"}}),
                            {"true or false"});
  expect_throws<UsageError>(make("bert-base", {{"heads", "7"}}), {"divisor"});
  expect_throws<UsageError>(make("", {}), {"needs a name", "lenet"});
  expect_throws<UsageError>(
      [] {
        make_network({"lenet", {}, {{"relu", {}}}});
      },
      {"name or layers"});
}

TEST(Network, DefaultsMakeTheSameNetwork) {
  for (const std::string name : {"lenet", "resnet20"}) {
    const auto defaults = network_defaults(name);
    EXPECT_TRUE(defaults.count("classes"));
    EXPECT_EQ(count_parameters(*make_network({name, defaults, {}})),
              count_parameters(*make_network({name, {}, {}})));
  }
  expect_throws<UsageError>([] { network_defaults("lenat"); },
                            {"did you mean 'lenet'"});
}

}  // namespace
}  // namespace sheaf::nn
