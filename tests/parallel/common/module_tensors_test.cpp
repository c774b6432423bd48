#include "sheaf/parallel/common/module_tensors.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;
using Names = std::vector<std::string>;

// A shared layer, sparse and dense tables, a buffer and a frozen parameter.
struct AllKindsImpl : torch::nn::Module {
  explicit AllKindsImpl(double value = 1) {
    layer = register_module("layer", torch::nn::Linear(2, 2));
    register_module("again", layer);
    words = register_module(
        "words",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(3, 2).sparse(true)));
    bag = register_module(
        "bag", torch::nn::EmbeddingBag(
                   torch::nn::EmbeddingBagOptions(3, 2).sparse(true).mode(
                       torch::kSum)));
    dense = register_module("dense", torch::nn::Embedding(3, 2));
    count = register_buffer("count", torch::full({2}, value));
    frozen = register_parameter("frozen", torch::full({2}, value),
                                /*requires_grad=*/false);
    const torch::NoGradGuard no_grad;
    for (at::Tensor& one : parameters()) one.fill_(value);
  }
  torch::nn::Linear layer{nullptr};
  torch::nn::Embedding words{nullptr}, dense{nullptr};
  torch::nn::EmbeddingBag bag{nullptr};
  at::Tensor count, frozen;
};

Names names_of_tensors(const NamedTensors& list) {
  Names names;
  for (const auto& [name, tensor] : list) names.push_back(name);
  return names;
}

const Names kUnique{"frozen",       "layer.weight", "layer.bias",
                    "words.weight", "bag.weight",   "dense.weight"};

TEST(ModuleTensors, SharedParametersAreListedOnce) {
  const auto net = std::make_shared<AllKindsImpl>();
  EXPECT_EQ(names_of_tensors(unique_parameters(*net)), kUnique);
}

TEST(ModuleTensors, TrainedParametersAreNotFrozenAndMayBeSparse) {
  const auto net = std::make_shared<AllKindsImpl>();
  const ModuleTensors tensors(*net);
  EXPECT_EQ(names_of_tensors(tensors.parameters), kUnique);
  Names trained, sparse;
  for (const TrainedParameter& one : tensors.trained) {
    trained.push_back(one.name);
    if (one.is_sparse) sparse.push_back(one.name);
  }
  EXPECT_EQ(trained, Names(kUnique.begin() + 1, kUnique.end()));
  EXPECT_EQ(sparse, (Names{"words.weight", "bag.weight"}));
  Names all = kUnique;
  all.push_back("count");
  EXPECT_EQ(names_of_tensors(tensors.all()), all);
}

// New tensors are those of rank 0; known ones may differ by now.
TEST(ModuleTensors, TensorsThatAreNotKnownAreShared) {
  run_threads(2, [](const Group& group) {
    const auto net = std::make_shared<AllKindsImpl>(group.rank() + 1);
    const ModuleTensors first = share_tensors(group, *net, {});
    EXPECT_EQ(net->frozen[0].item<float>(), 1);
    EXPECT_EQ(net->count[0].item<float>(), 1);
    EXPECT_EQ(net->bag->weight[0][0].item<float>(), 1);
    net->count.fill_(group.rank() + 5);
    const at::Tensor added =
        net->register_parameter("added", torch::full({1}, group.rank() + 7.0));
    const ModuleTensors second = share_tensors(group, *net, first);
    EXPECT_EQ(added.item<float>(), 7);
    EXPECT_EQ(net->count[0].item<float>(), group.rank() + 5);
    EXPECT_EQ(second.trained.size(), first.trained.size() + 1);
  });
}

TEST(ModuleTensors, ModulesThatDifferAreAnErrorOnAllRanks) {
  run_threads(2, [](const Group& group) {
    const auto net = std::make_shared<AllKindsImpl>();
    if (group.rank() == 1) net->register_buffer("more", torch::ones({1}));
    expect_throws<UsageError>([&] { share_tensors(group, *net, {}); },
                              {"rank 1 has more", "nothing more on rank 0"});
  });
}

TEST(ModuleTensors, WeightsAreCheckedExceptThoseThatAreKept) {
  run_threads(2, [](const Group& group) {
    const auto net = std::make_shared<AllKindsImpl>();
    const ModuleTensors tensors = share_tensors(group, *net, {});
    check_same_weights(group, tensors, {});
    net->frozen.fill_(group.rank());
    check_same_weights(group, tensors, {net->frozen});
    expect_throws<CheckError>([&] { check_same_weights(group, tensors, {}); },
                              {"frozen on rank 1"});
    net->frozen.fill_(0);
    net->count.fill_(group.rank());
    expect_throws<CheckError>([&] { check_same_weights(group, tensors, {}); },
                              {"count on rank 1"});
  });
}

TEST(ModuleTensors, ThereMustBeSomethingToTrain) {
  expect_throws<UsageError>([] { check_not_empty({}); },
                            {"no parameter of the module requires a gradient"});
  check_not_empty({{"w", torch::ones({1})}});
}

}  // namespace
}  // namespace sheaf::parallel
