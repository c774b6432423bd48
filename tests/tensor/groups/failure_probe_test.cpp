#include "sheaf/tensor/groups/failure_probe.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <thread>

namespace sheaf::tensor {
namespace {

using Sizes = std::vector<std::vector<std::int64_t>>;

Sizes sizes_of(const OperatorCall& call) {
  Sizes sizes;
  for (const at::Tensor& tensor : call.tensors)
    sizes.push_back(tensor.sizes().vec());
  return sizes;
}

// A probe that keeps the operators that succeeded.
class Probed : public testing::Test {
 protected:
  std::vector<std::string> succeeded() const {
    std::vector<std::string> names;
    for (const OperatorCall& call : calls_) names.push_back(call.name);
    return names;
  }

  const at::Tensor x_ = torch::ones({2, 3});
  const at::Tensor wide_ = torch::ones({4, 5});
  std::vector<OperatorCall> calls_;
  std::optional<FailureProbe> probe_{
      std::in_place,
      [this](const OperatorCall& call) { calls_.push_back(call); }};
};

TEST_F(Probed, OutermostOperatorsSucceed) {
  torch::matmul(x_, torch::ones({3, 4}));
  torch::cat({x_, x_});
  EXPECT_EQ(succeeded(), (std::vector<std::string>{"ones", "matmul", "cat"}));
  EXPECT_EQ(sizes_of(calls_[1]), (Sizes{{2, 3}, {3, 4}}));
  EXPECT_EQ(sizes_of(calls_[2]), (Sizes{{2, 3}, {2, 3}}));
  EXPECT_TRUE(probe_->failed().empty());
}

TEST_F(Probed, FailedOperatorsAreListedFromOutsideIn) {
  EXPECT_THROW(torch::matmul(x_, wide_), c10::Error);
  const auto& failed = probe_->failed();
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_EQ(failed[0].name, "matmul");
  EXPECT_EQ(failed[1].name, "mm");
  EXPECT_EQ(sizes_of(failed[0]), (Sizes{{2, 3}, {4, 5}}));
  EXPECT_TRUE(calls_.empty());
}

// What runs while an earlier exception unwinds the stack does not fail.
TEST_F(Probed, OperatorsInDestructorsSucceed) {
  struct Last {
    const at::Tensor& x;
    ~Last() { torch::relu(x); }
  };
  try {
    const Last last{x_};
    throw std::runtime_error("of the program");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(succeeded(), std::vector<std::string>{"relu"});
  EXPECT_TRUE(probe_->failed().empty());
}

TEST_F(Probed, UndefinedTensorsAreSkipped) {
  torch::conv1d(torch::ones({1, 1, 3}), torch::ones({1, 1, 1}));
  ASSERT_EQ(calls_.back().name, "conv1d");
  EXPECT_EQ(sizes_of(calls_.back()), (Sizes{{1, 1, 3}, {1, 1, 1}}));
}

TEST_F(Probed, TheSuccessAfterAFailureIsReported) {
  EXPECT_THROW(torch::mm(x_, wide_), c10::Error);
  torch::relu(x_);
  EXPECT_EQ(succeeded(), std::vector<std::string>{"relu"});
  EXPECT_EQ(probe_->failed().size(), 1u);
}

TEST_F(Probed, OtherThreadsAreNotObserved) {
  std::thread([this] { torch::relu(x_); }).join();
  EXPECT_TRUE(calls_.empty());
}

TEST_F(Probed, ASecondProbeObservesNothing) {
  int seen = 0;
  {
    const FailureProbe second([&](const OperatorCall&) { ++seen; });
    torch::relu(x_);
    EXPECT_THROW(torch::mm(x_, wide_), c10::Error);
    EXPECT_TRUE(second.failed().empty());
  }
  torch::relu(x_);  // the first one goes on
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(succeeded(), (std::vector<std::string>{"relu", "relu"}));
}

TEST_F(Probed, NothingIsObservedAfterItsEnd) {
  probe_.reset();
  torch::relu(x_);
  EXPECT_TRUE(calls_.empty());
  int seen = 0;
  const FailureProbe next([&](const OperatorCall&) { ++seen; });
  torch::relu(x_);
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace sheaf::tensor
