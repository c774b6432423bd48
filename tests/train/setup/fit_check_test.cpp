// Checks that data, loss and network match before a run writes anything.
#include "sheaf/train/setup/fit_check.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;
using data::TensorDataset;
using torch::Tensor;

constexpr std::int64_t kRows = 22;

Tensor labels() { return torch::arange(kRows) % 3; }

// Not for ranks that are threads, because they share one generator.
DataSets sets_with(const Tensor& target) {
  torch::manual_seed(1);
  const auto set =
      std::make_shared<TensorDataset>(torch::rand({kRows, 1, 4, 4}), target);
  return {set, nullptr, set, nullptr, nullptr};
}

class FitCheck : public testing::Test {
 protected:
  RunResult train(const Tensor& target, const std::vector<std::string>& sets,
                  int ranks = 1) {
    const DataSets data = sets_with(target);
    RunResult result;
    comm::run_threads(ranks, [&](const comm::Group& group) {
      const RunResult mine =
          run_in(group, place(), small_run(sets), {.data = data});
      if (group.rank() == 0) result = mine;
    });
    return result;
  }
  // Expects the error on every rank, before a folder is created.
  void expect_refused(const Tensor& target,
                      const std::vector<std::string>& sets,
                      std::initializer_list<std::string> words) {
    const DataSets data = sets_with(target);
    comm::run_threads(3, [&](const comm::Group& group) {
      const auto start = [&] {
        run_in(group, place(), small_run(sets), {.data = data});
      };
      if (group.rank() == 0)
        expect_throws<UsageError>(start, words);
      else
        EXPECT_EQ(code_of(start), 2);
    });
    EXPECT_FALSE(fs::exists(place()));
  }
  fs::path place() { return folder_.path() / std::to_string(number_); }

  TemporaryFolder folder_;
  int number_ = 0;

 private:
  static int code_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const FailedOnRoot& failure) {
      return failure.code();
    }
    return 0;
  }
};

TEST_F(FitCheck, ClassNumbersAreWhole) {
  const Tensor floats = labels().to(torch::kFloat);
  for (const char* loss : {"loss=cross_entropy", "loss=nll"})
    for (const Tensor& target : {floats, floats + 0.6, floats / 0})
      expect_refused(target, {loss}, {"training set", "Float", "integers"});
  expect_refused(torch::one_hot(labels(), 3).to(torch::kDouble), {"loss=nll"},
                 {"Double", "loss=cross_entropy"});
}

TEST_F(FitCheck, TheDataIsNamed) {
  const std::string set = folder_.path() / "set";
  fs::create_directory(set);
  for (const char* split : {"/train", "/test"}) {
    tensor::save_npy(set + split + "_data.npy", torch::rand({kRows, 1, 4, 4}));
    tensor::save_npy(set + split + "_target.npy", labels().to(torch::kFloat));
  }
  with_one_rank([&](const comm::Group& group) {
    expect_throws<UsageError>(
        [&] {
          run_in(group, place(),
                 small_run({"data={name: npy, folder: " + set + "}"}));
        },
        {"training set (npy in " + set + ")"});
  });
}

// A probability of 1 for a class is equivalent to that class.
TEST_F(FitCheck, ProbabilitiesAreTargets) {
  const std::vector<std::string> sets{"precision=f64"};
  const auto by_number = train(labels(), sets);
  ++number_;
  const Tensor certain = torch::one_hot(labels(), 3).to(torch::kFloat);
  const auto by_probability = train(certain, sets);
  EXPECT_LT(largest_difference(by_number.weights, by_probability.weights),
            1e-12);
  EXPECT_NEAR(by_number.test->loss, by_probability.test->loss, 1e-12);
  ++number_;
  expect_refused(certain.narrow(1, 0, 2).contiguous(), sets,
                 {"probabilities", "[3]", "[2]"});
}

TEST_F(FitCheck, ALabelNeedsAnOutput) {
  expect_refused(labels() + 5, {}, {"8 classes", "3 outputs", "at least 8"});
  expect_refused(labels(), {"network.arguments={sizes: [16, 8, 2]}"},
                 {"3 classes", "labels 0 to 2", "2 outputs"});
}

TEST_F(FitCheck, OutputsWithoutLabelsAreAllowed) {
  const std::vector<std::string> sets{"precision=f64",
                                      "network.arguments={sizes: [16, 8, 5]}"};
  const auto one = train(labels(), sets);
  EXPECT_TRUE(std::isfinite(one.test->f1));
  ++number_;
  const auto two = train(labels(), sets, /*ranks=*/2);
  EXPECT_LT(largest_difference(one.weights, two.weights), 1e-12);
  EXPECT_EQ(one.test->f1, two.test->f1);
}

TEST_F(FitCheck, MseNeedsATargetForEachOutput) {
  expect_refused(labels(), {"loss=mse"},
                 {"mse", "[3]", "[]", "loss=cross_entropy"});
  EXPECT_TRUE(
      std::isfinite(train(torch::rand({kRows, 3}), {"loss=mse"}).test->loss));
}

TEST_F(FitCheck, LabelsOfOtherShapesAreDistinguished) {
  expect_refused(labels().view({kRows, 1}), {},
                 {"[3]", "[1]", "number of classes"});
}

// Nothing is known about a user's model before its first step.
TEST_F(FitCheck, UserModelsAreCheckedInTheFirstStep) {
  const RunConfig config = small_run({"network.arguments={sizes: [16, 8, 2]}"});
  with_one_rank([&](const comm::Group& group) {
    expect_throws<UsageError>(
        [&] {
          run_in(group, place(), config,
                 {.model = make_model(config), .data = sets_with(labels())});
        },
        {"rank 0", "2 outputs", "Target 2"});
  });
}

}  // namespace
}  // namespace sheaf::train
