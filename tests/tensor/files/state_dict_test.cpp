#include "sheaf/tensor/files/state_dict.hpp"

#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/tensor/files/expect_same.hpp"
#include "tests/tensor/files/state_cases.hpp"

namespace sheaf::tensor {
namespace {

TEST(StateDict, NamesAndOrderArePythons) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_dict(*small_network())) {
    names.push_back(name);
    EXPECT_FALSE(tensor.requires_grad());
  }
  const std::vector<std::string> wanted{
      "0.weight",       "1.weight",      "1.bias",
      "1.running_mean", "1.running_var", "1.num_batches_tracked",
      "3.weight",       "3.bias"};
  EXPECT_EQ(names, wanted);
}

TEST(StateDict, SharesTheMemoryOfTheModule) {
  const auto network = small_network();
  for (const auto& [name, tensor] : state_dict(*network)) tensor.zero_();
  for (const auto& parameter : network->parameters())
    EXPECT_EQ(parameter.abs().max().item<double>(), 0);
}

TEST(StateDict, GoesThroughAFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  const auto from = small_network();
  auto to = small_network();
  save_state_dict(path, state_dict(*from));
  load_state_dict(*to, load_state_dict_file(path));
  expect_same(state_dict(*from), state_dict(*to));
  for (const auto& parameter : to->parameters())
    EXPECT_TRUE(parameter.is_leaf() && parameter.requires_grad());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"state.pt"});
}

// The module keeps its types.
TEST(StateDict, ValuesAreConverted) {
  auto network = small_network();
  auto state = state_dict(*small_network());
  for (auto& [name, tensor] : state)
    tensor = at::full_like(tensor, 3).to(at::kHalf);
  load_state_dict(*network, state);
  for (const auto& [name, tensor] : state_dict(*network)) {
    EXPECT_TRUE((tensor == 3).all().item<bool>()) << name;
    EXPECT_EQ(tensor.scalar_type(),
              name == "1.num_batches_tracked" ? at::kLong : at::kFloat);
  }
}

TEST(StateDict, WhatDoesNotFitIsNamed) {
  auto network = small_network();
  const auto before = at::clone(network->parameters()[0]);
  auto state = state_dict(*small_network());
  state[0].second = at::zeros_like(state[0].second);
  state.erase(state.begin() + 3);
  state[1].second = at::zeros({5});
  state.emplace_back("new", at::zeros({1}));
  state.emplace_back("new", at::zeros({1}));
  expect_throws<UsageError>(
      [&] { load_state_dict(*network, state); },
      {"missing: 1.running_mean", "unexpected: new",
       "1.weight is [5], the module's is [2]", "given twice: new"});
  EXPECT_TRUE(at::equal(network->parameters()[0], before));
}

}  // namespace
}  // namespace sheaf::tensor
