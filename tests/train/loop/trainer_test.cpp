#include "sheaf/train/loop/trainer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/train/files/durable.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(Trainer, LeavesARunFolder) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    const fs::path place = folder.path() / "run";
    std::ostringstream out;
    TrainOptions options;
    options.out = &out;
    const auto result =
        run_in(group, place, small_run({"output.trace=true"}), options);
    EXPECT_EQ(result.steps, 12);

    std::size_t batches = 0, epochs = 0, tests = 0;
    for (const std::string& line : lines_in(place / "log.jsonl")) {
      const json row = json::parse(line);
      batches += row["kind"] == "batch";
      epochs += row["kind"] == "epoch";
      tests += row["kind"] == "test";
      if (row["kind"] == "test") continue;
      for (const char* key :
           {"data_duration", "forward_duration", "backward_duration",
            "exchange_duration", "optimizer_duration", "batch_duration",
            "bytes_sent", "learning_rate"})
        EXPECT_GE(row.at(key).get<double>(), 0) << key;
    }
    EXPECT_EQ(batches, 12u);
    EXPECT_EQ(epochs, 4u);
    EXPECT_EQ(tests, 1u);

    const json summary = json::parse(read_whole(place / "summary.json"));
    EXPECT_EQ(summary["ending"], "finished");
    EXPECT_EQ(summary["steps"], 12);
    EXPECT_EQ(summary["test_accuracy"], result.test->accuracy);
    const json trace = json::parse(read_whole(place / "trace.json"));
    EXPECT_FALSE(trace["traceEvents"].empty());
    const RunConfig config = read_config(place / "config.yaml");
    EXPECT_EQ(config.output.folder, place.string());
    EXPECT_EQ(print_config(config), read_whole(place / "config.yaml"));
    EXPECT_TRUE(fs::exists(place / "checkpoints" / "latest" / "weights.pt"));
    EXPECT_NE(out.str().find("epoch 4/4"), std::string::npos);
    EXPECT_NE(out.str().find("run folder"), std::string::npos);
  });
}

TEST(Trainer, Learns) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    const auto result =
        run_in(group, folder.path() / "a",
               small_run({"epochs=20",
                          "data.arguments={examples: 200, test_examples: "
                          "50, classes: 3, shape: [1, 4, 4]}"}));
    EXPECT_GT(result.test->accuracy, 0.9);
  });
}

TEST(Trainer, EveryPrecisionAndLossRuns) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    int number = 0;
    for (const char* set :
         {"precision=bf16", "precision=f64", "parallel.strategy=none",
          "parallel.compression=bf16", "data.workers=0"}) {
      const auto result = run_in(
          group, folder.path() / std::to_string(number++), small_run({set}));
      EXPECT_TRUE(std::isfinite(result.test->loss)) << set;
    }
  });
}

// Vectors, with a last batch of 3 rows: no rank may have a single row.
TEST(Trainer, BatchNormOverRanksNeedsNoTwoRowsOfEach) {
  const RunConfig config = small_run(
      {"network={name: layers, arguments: {input: 1x4x4}, layers: [flatten, "
       "linear: {out_features: 8}, batchnorm, relu, linear: {out_features: "
       "3}]}",
       "precision=f64", "data.limit=19", "parallel.sync_batchnorm=true"});
  const TemporaryFolder folder;
  RunResult one;
  with_one_rank([&](const comm::Group& group) {
    one = run_in(group, folder.path() / "one", config);
  });
  for (const int ranks : {2, 3})
    comm::run_threads(ranks, [&](const comm::Group& group) {
      const auto together =
          run_in(group, folder.path() / std::to_string(ranks), config);
      EXPECT_LT(largest_difference(one.weights, together.weights), 1e-12);
    });
}

// One image per rank is enough, and may be all that its memory can hold.
TEST(Trainer, BatchNormOfImagesLeavesEachRankItsRow) {
  const RunConfig config = small_run(
      {"network={name: layers, arguments: {input: 1x4x4}, layers: [conv2d: "
       "{out_channels: 2, kernel: 3}, batchnorm, flatten, linear: "
       "{out_features: 3}]}",
       "global_batch=2", "epochs=1", "parallel.sync_batchnorm=true"});
  const TemporaryFolder folder;
  comm::run_threads(2, [&](const comm::Group& group) {
    Model model = make_model(config);
    const auto forward = model.forward;
    model.forward = [&, forward](const torch::Tensor& input) {
      EXPECT_TRUE(!model.module->is_training() || input.size(0) == 1);
      return forward(input);
    };
    run_in(group, folder.path() / "a", config, {.model = model});
  });
}

TEST(Trainer, ASingleRowThatCannotBeNormalizedIsExplained) {
  const RunConfig config = small_run(
      {"network={name: layers, arguments: {input: 1x4x4}, layers: [flatten, "
       "linear: {out_features: 8}, batchnorm, linear: {out_features: 3}]}",
       "data.limit=17"});
  const TemporaryFolder folder;
  with_one_rank([&](const comm::Group& group) {
    expect_throws<UsageError>(
        [&] { run_in(group, folder.path() / "a", config); },
        {"rank 0 has 1 row", "batch normalization", "global_batch"});
  });
}

// on_non_finite does not apply to evaluations.
TEST(Trainer, ANonFiniteEvaluationIsLogged) {
  const TemporaryFolder folder;
  const RunConfig config = small_run();
  TrainOptions options;
  options.data = open_data(config);
  const torch::Tensor nothing = torch::full(
      {5, 1, 4, 4}, std::numeric_limits<double>::quiet_NaN(), torch::kFloat);
  options.data->test = options.data->validation =
      std::make_shared<data::TensorDataset>(nothing,
                                            torch::zeros({5}, torch::kLong), 3);
  testing::internal::CaptureStderr();
  with_one_rank([&](const comm::Group& group) {
    run_in(group, folder.path() / "a", config, options);
  });
  const std::string told = testing::internal::GetCapturedStderr();
  for (const char* words : {"the validation loss after step 3 is nan",
                            "the test loss after step 12 is nan"})
    EXPECT_NE(told.find(words), told.npos) << told;
  const json summary =
      json::parse(read_whole(folder.path() / "a" / "summary.json"));
  EXPECT_TRUE(summary.at("validation_loss").is_null());
  EXPECT_TRUE(summary.at("test_loss").is_null());
  EXPECT_TRUE(summary.at("train_loss").is_number());
}

TEST(Trainer, ACorruptCheckpointGivesWayToTheOneBefore) {
  set_log_level(LogLevel::kOff);
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    const RunConfig config = small_run();
    const auto whole = run_in(group, folder.path() / "whole", config);
    run_in(group, folder.path() / "a", config);
    const fs::path checkpoints = folder.path() / "a" / "checkpoints";
    write_file_atomically(checkpoints / "step-0000000012" / "weights.pt",
                          "spoilt");
    const auto again =
        run_in(group, folder.path() / "a", config, {.is_resumed = true});
    EXPECT_TRUE(has_same_bits(whole.weights, again.weights));
    EXPECT_TRUE(fs::exists(checkpoints / "bad-step-0000000012"));
  });
  set_log_level(LogLevel::kWarn);
}

TEST(Trainer, AnotherSeedCannotResume) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    run_in(group, folder.path() / "a", small_run());
    const RunConfig other = small_run({"seed=6"});
    EXPECT_THROW(
        run_in(group, folder.path() / "a", other, {.is_resumed = true}),
        UsageError);
  });
}

TEST(Trainer, MoreEpochsGoOn) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    const std::string constant = "schedule=constant";
    run_in(group, folder.path() / "a", small_run({constant}));
    const auto more =
        run_in(group, folder.path() / "a", small_run({constant, "epochs=6"}),
               {.is_resumed = true});
    EXPECT_EQ(more.steps, 18);
  });
}

TEST(Trainer, WrongNetworksAndDataAreReportedWithTheirPlace) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    const auto error_of = [&](const std::string& text) {
      try {
        run_in(group, folder.path() / "a", parse_config(text, "a.yaml"));
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string("no error");
    };
    const std::string data = "data: {name: synthetic}\n";
    EXPECT_NE(error_of(data + "network: lenett").find("a.yaml:2: "),
              std::string::npos);
    const std::string error =
        error_of("data: {name: synthetic, transforms: [padd]}");
    EXPECT_NE(error.find("did you mean 'pad'"), std::string::npos) << error;
    EXPECT_NE(error_of("data: {name: synthetic, transforms: [pad: {pixel: 1}]}")
                  .find("needs the argument 'pixels'"),
              std::string::npos);
    EXPECT_NE(error_of("data: {name: synthetic, arguments: {size: 1}}")
                  .find("has no argument 'size'"),
              std::string::npos);
    EXPECT_FALSE(fs::exists(folder.path() / "a"));
  });
}

TEST(Trainer, EpochsAreLoggedWithTheirLastStep) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    run_in(group, folder.path() / "a", small_run());
    std::vector<std::int64_t> steps;
    for (const std::string& line : lines_in(folder.path() / "a" / "log.jsonl"))
      if (const json row = json::parse(line); row["kind"] == "epoch")
        steps.push_back(row["step"]);
    EXPECT_EQ(steps, (std::vector<std::int64_t>{2, 5, 8, 11}));
  });
}

TEST(Trainer, OneRowIsAValidationSet) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    const auto result = run_in(group, folder.path() / "a",
                               small_run({"data.validation=1", "epochs=1"}));
    ASSERT_TRUE(result.validation.has_value());
    EXPECT_EQ(result.validation->rows, 1);
    EXPECT_TRUE(std::isfinite(result.validation->loss));
  });
}

}  // namespace
}  // namespace sheaf::train
