#include "sheaf/train/step/non_finite.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "sheaf/base/files.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/step/finite.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/loop/gb_runs.hpp"
#include "tests/train/loop/non_finite_runs.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using torch::Tensor;

TEST(Finite, OneElementDecides) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto type :
       {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    Tensor list = torch::ones({1000}, type);
    EXPECT_TRUE(is_finite(list)) << type;
    for (const double bad : {nan, kInfinite, -kInfinite}) {
      Tensor spoilt = list.clone();
      spoilt[567] = bad;
      EXPECT_FALSE(is_finite(spoilt)) << type;
      EXPECT_FALSE(are_finite({list, spoilt})) << type;
    }
    // The sum overflows, but the elements are finite.
    EXPECT_TRUE(is_finite(list * 60000)) << type;
  }
  EXPECT_TRUE(is_finite(torch::full({9}, 3e38)));
  Tensor both = torch::ones({4});
  both[0] = kInfinite;
  both[1] = -kInfinite;
  EXPECT_FALSE(is_finite(both));
  EXPECT_TRUE(is_finite({}));
  EXPECT_TRUE(is_finite(torch::arange(5)));
  EXPECT_TRUE(is_finite(torch::empty({0})));
  EXPECT_FALSE(is_finite(both.to_sparse()));
}

std::string found_in(torch::nn::Module& module,
                     const std::function<Tensor()>& loss) {
  NonFiniteSearch search(module);
  const Tensor result = loss();
  const std::string forward = search.find_in_forward(result);
  return forward.empty() ? search.find_in_backward(result) : forward;
}

TEST(NonFiniteSearch, FollowsTheValuesBackToTheirOrigin) {
  FaultyImpl net([](const Tensor& y) { return y; }, 1);
  const Tensor x = torch::ones({2, 16});
  EXPECT_EQ(found_in(net, [&] { return net.forward(x).sum(); }), "");

  net.two->weight.data().mul_(1e38);
  EXPECT_EQ(
      found_in(net, [&] { return net.three(net.two(net.one(x) + 100)).sum(); })
          .substr(0, 26),
      "the output of layer 'two' ");
  EXPECT_EQ(found_in(net, [&] { return (net.one(x) * 0 - 1).log().sum(); }),
            "the output of aten::log after layer 'one'");
  EXPECT_EQ(found_in(net, [&] { return (x / 0).sum(); }),
            "the output of aten::div, before any layer");
}

// As in attention: infinite values that do not reach the result.
TEST(NonFiniteSearch, AMaskIsNoFault) {
  FaultyImpl net([](const Tensor& y) { return y; }, 1);
  const Tensor x = torch::ones({2, 16});
  const Tensor mask =
      torch::tensor({true, false, false, true, false, false, false, false});
  const auto masked = [&] {
    return net.one(x).masked_fill(mask, -kInfinite).softmax(1);
  };
  EXPECT_EQ(found_in(net, [&] { return net.three(masked()).sum(); }), "");
  EXPECT_EQ(
      found_in(net, [&] { return (net.three(masked()) * 0).log().sum(); }),
      "the output of aten::log after layer 'three'");
}

// The square root of 0 is 0, but its derivative is infinite. As in a residual
// network, the same values also bypass it.
TEST(NonFiniteSearch, FindsTheGradientOfAFiniteLoss) {
  FaultyImpl net([](const Tensor& y) { return y; }, 1);
  const Tensor x = torch::ones({2, 16});
  EXPECT_EQ(found_in(net,
                     [&] {
                       const Tensor y = net.one(x);
                       const Tensor root = (y * 0).sqrt();
                       return net.three(net.two(root) + y).sum();
                     }),
            "the gradient of aten::sqrt after layer 'one'");
  EXPECT_EQ(found_in(net,
                     [&] {
                       const Tensor y = net.three(net.two(net.one(x))) * 0;
                       return (y * 1e30 * 1e30).sum();
                     }),
            "the gradient of aten::mul after layer 'three'");
}

class NonFinite : public testing::Test {
 protected:
  RunResult start(const RunConfig& config, const TrainOptions& options) {
    RunResult result;
    with_one_rank([&](const comm::Group& group) {
      result = run_in(group, place(), config, options);
    });
    return result;
  }
  void expect_stop(const RunConfig& config, const TrainOptions& options,
                   std::initializer_list<std::string> words) {
    expect_throws<NonFiniteError>([&] { start(config, options); }, words);
  }
  fs::path place() const { return folder_.path() / "a"; }

  TemporaryFolder folder_;
};

TEST_F(NonFinite, ALargeLearningRateStopsTheRun) {
  expect_stop(small_run({"optimizer.learning_rate=1e30"}), {},
              {"is not finite", "rank 0", "layer", "on_non_finite=skip"});
  EXPECT_FALSE(fs::exists(place() / "summary.json"));
}

TEST_F(NonFinite, TheCodeIsThatOfAWrongResult) {
  EXPECT_EQ(exit_code(NonFiniteError("x")), 6);
}

TEST_F(NonFinite, AnInputIsNamed) {
  const RunConfig config = small_run();
  TrainOptions options;
  options.data = spoilt_data(config, {3});
  expect_stop(config, options,
              {"(epoch 1, batch ", "Found first on rank 0: the input of row "});
}

TEST_F(NonFinite, TheLayerAndTheLastCheckpointAreNamed) {
  const RunConfig config = small_run();
  TrainOptions options;
  const auto overflow = [](const Tensor& y) { return y.mul(1e30).mul(1e30); };
  options.model = lasting_fault(overflow, 5);  // no validation runs
  expect_stop(
      config, options,
      {"step 4 (epoch 2, batch 2)", "the output of aten::mul after layer 'one'",
       "The last checkpoint is step-0000000003"});
  const CheckpointFolder checkpoints(place() / "checkpoints", 2);
  EXPECT_EQ(checkpoints.load_latest()->step, 3);
}

TEST_F(NonFinite, AGradientIsNamed) {
  const RunConfig config = small_run();
  TrainOptions options;
  const auto root = [](const Tensor& y) { return y.mul(0).sqrt(); };
  options.model = lasting_fault(root, 5);
  expect_stop(config, options,
              {"step 4 ", "the gradient of aten::sqrt after layer 'one'"});
}

// A skipped step changes no weights, metrics or running statistics.
TEST_F(NonFinite, ASkippedStepLeavesNoTrace) {
  for (const bool is_gradient : {false, true}) {
    const auto fault = [=](const Tensor& y) {
      return is_gradient ? y.mul(0).sqrt() : y / 0.0;
    };
    const RunConfig config =
        small_run({"on_non_finite=skip", "precision=f64", "epochs=1",
                   "output.checkpoint_every=1", "global_batch=11"});
    TrainOptions options;
    options.model = faulty_model(fault, 2, /*has_norm=*/true);
    remove_tree(place());
    const auto result = start(config, options);
    EXPECT_EQ(result.skipped_steps, 1);
    EXPECT_EQ(result.steps, 2);
    EXPECT_TRUE(std::isfinite(result.train.loss));
    EXPECT_EQ(result.train.rows, 11);
    EXPECT_TRUE(std::isfinite(result.test->loss));
    const json summary = json::parse(read_whole(place() / "summary.json"));
    EXPECT_EQ(summary["skipped_steps"], 1);
    int skipped = 0;
    for (const std::string& line : lines_in(place() / "log.jsonl"))
      skipped += json::parse(line).value("is_skipped", false);
    EXPECT_EQ(skipped, 1);
    // The state is that after the first of the two steps.
    const CheckpointFolder checkpoints(place() / "checkpoints", 2);
    const TrainState once = checkpoints.load("step-0000000001");
    EXPECT_TRUE(has_same_bits(once.weights, result.weights));
  }
}

TEST_F(NonFinite, IgnoredItGoesOn) {
  const RunConfig config =
      small_run({"on_non_finite=ignore", "optimizer.learning_rate=1e30"});
  const auto result = start(config, {});
  EXPECT_EQ(result.steps, 12);
  EXPECT_EQ(result.skipped_steps, 0);
}

// A finite step can still produce non-finite weights.
TEST_F(NonFinite, WeightsThatAreNotFiniteAreNotSaved) {
  expect_stop(small_run({"optimizer={name: sgd, learning_rate: 3e38, "
                         "weight_decay: 1000}",
                         "schedule=constant", "global_batch=22"}),
              {}, {"are not finite, and are not saved", "weight or buffer"});
  EXPECT_FALSE(fs::exists(place() / "checkpoints" / "latest"));
}

// A buffer that was infinite from the start is intended to be so.
TEST_F(NonFinite, AMaskMayBeSaved) {
  TrainOptions options;
  options.model = masked_model();
  EXPECT_EQ(start(small_run(), options).steps, 12);
  options.is_resumed = true;
  options.model = masked_model();
  const RunConfig longer = small_run({"epochs=5"});
  options.accepts_changes = true;  // of the schedule, due to epochs
  EXPECT_EQ(start(longer, options).steps, 15);
}

TEST_F(NonFinite, ABufferThatBecomesInfiniteIsNotSaved) {
  TrainOptions options;
  options.model = masked_model(5);
  expect_stop(small_run(), options,
              {"are not finite, and are not saved", "buffer 'state'",
               "The last checkpoint is step-0000000003"});
}

// The loss is infinite in one forward only, so repeating the step finds no
// cause.
TEST_F(NonFinite, AMaskIsNotBlamed) {
  TrainOptions options;
  options.model = masked_model();
  const auto forward = options.model->forward;
  auto count = std::make_shared<int>(0);
  options.model->forward = [=](const Tensor& x) {
    return ++*count == 5 ? forward(x) / 0.0 : forward(x);
  };
  const std::string text =
      sheaf::error_of<NonFiniteError>([&] { start(small_run(), options); });
  EXPECT_NE(text.find("step 4 "), text.npos) << text;
  EXPECT_EQ(text.find("mask"), text.npos) << text;
}

TEST_F(NonFinite, PretrainingStopsToo) {
  const RunConfig config = gb_run();
  TrainOptions options;
  options.data = spoilt_data(config, {3});
  expect_stop(config, options,
              {"stage 1, epoch 1, batch ", "of pre-training is not finite",
               "Found first on rank 0: the input images"});
}

TEST_F(NonFinite, PretrainingSkipsToo) {
  const RunConfig config = gb_run({"on_non_finite=skip"});
  TrainOptions options;
  options.data = spoilt_data(config, {3});
  const auto result = start(config, options);
  // One batch of three, in 2 x 2 epochs of pre-training and 3 epochs of the
  // run.
  EXPECT_EQ(result.skipped_steps, 7);
  EXPECT_TRUE(std::isfinite(result.test->loss));
}

// Makes the last of the three batches of an epoch infinite. One rank reads all
// of them, in order.
class SpoilsLastBatches : public Slice {
 public:
  explicit SpoilsLastBatches(std::shared_ptr<const data::Dataset> whole)
      : Slice(whole, 0, whole->size()) {}

  data::Batch get(std::span<const std::int64_t> indices,
                  data::Random& random) const override {
    data::Batch batch = Slice::get(indices, random);
    batch.data = batch.data.to(torch::kFloat) / 255;
    if (++count_ % 3 == 0) batch.data.fill_(kInfinite);
    return batch;
  }

 private:
  mutable int count_ = 0;
};

TEST_F(NonFinite, AnEpochWithASkippedStepHasTheCostOfTheOthers) {
  const RunConfig config = gb_run({"on_non_finite=skip", "epochs=1"});
  std::ostringstream out;
  TrainOptions options;
  options.data = open_data(config);
  options.data->train =
      std::make_shared<SpoilsLastBatches>(options.data->train);
  options.out = &out;
  EXPECT_EQ(start(config, options).skipped_steps, 5);
  const std::string text = out.str();
  for (const char* place :
       {"1/2, epoch 1/2", "1/2, epoch 2/2", "2/2, epoch 1/2", "2/2, epoch 2/2"})
    EXPECT_NE(text.find(concat("pre-training ", place, "  reconstruction ")),
              text.npos)
        << text;
  EXPECT_EQ(text.find("reconstruction nan"), text.npos) << text;
}

TEST_F(NonFinite, AnEpochOfSkippedPretrainingHasNoCost) {
  const RunConfig config = gb_run({"on_non_finite=skip", "epochs=1"});
  std::vector<std::int64_t> all(22);
  std::iota(all.begin(), all.end(), 0);
  std::ostringstream out;
  TrainOptions options;
  options.data = spoilt_data(config, all);
  options.out = &out;
  start(config, options);
  const std::string text = out.str();
  EXPECT_NE(text.find("pre-training 1/2, epoch 1/2  skipped: "), text.npos)
      << text;
  EXPECT_EQ(text.find("reconstruction"), text.npos) << text;
}

}  // namespace
}  // namespace sheaf::train
