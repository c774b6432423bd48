// Which runs can be resumed, and what a resumption leaves unchanged.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Resume : public testing::Test {
 protected:
  // Runs on one rank, to the end or until the n-th forward.
  RunResult start(const std::string& name, const RunConfig& config,
                  int forwards = 0) {
    return on_one_rank(name, config, {.model = model_of(config, forwards)});
  }
  RunResult resume(const std::string& name, const RunConfig& config,
                   bool accepts_changes = false) {
    return on_one_rank(
        name, config,
        {.is_resumed = true, .accepts_changes = accepts_changes, .out = &out_});
  }
  fs::path place(const std::string& name) const {
    return folder_.path() / name;
  }
  json summary(const std::string& name) const {
    return json::parse(read_whole(place(name) / "summary.json"));
  }

  std::ostringstream out_;

 private:
  static std::optional<Model> model_of(const RunConfig& config, int forwards) {
    if (forwards == 0) return std::nullopt;
    return stopping_model(config, forwards);
  }
  RunResult on_one_rank(const std::string& name, const RunConfig& config,
                        const TrainOptions& options) {
    RunResult result;
    with_one_rank([&](const comm::Group& group) {
      result = run_in(group, place(name), config, options);
    });
    return result;
  }

  TemporaryFolder folder_;
};

const std::vector<std::string> kConstant{"schedule=constant",
                                         "output.trace=true"};

RunConfig run_with(std::vector<std::string> sets) {
  sets.insert(sets.begin(), kConstant.begin(), kConstant.end());
  return small_run(sets);
}

TEST_F(Resume, ARefusedOneLeavesEverythingAsItWas) {
  start("a", run_with({}), 5);
  const auto before = content_of(place("a"));
  for (const char* other :
       {"seed=6", "global_batch=4", "optimizer.learning_rate=0.2",
        "optimizer={name: adam, learning_rate: 0.1}", "precision=f64",
        "network.arguments={sizes: [16, 9, 3]}", "loss=nll",
        "data.arguments={examples: 23}", "parallel.bucket_mb=1",
        "early_stopping.patience=3", "clip_norm=1", "epochs=1"}) {
    SCOPED_TRACE(other);
    EXPECT_THROW(resume("a", run_with({other})), UsageError);
    expect_untouched(before, place("a"));
  }
}

// A network that does not match the weights is rejected even with
// accepts_changes.
TEST_F(Resume, WhatDoesNotFitIsRefusedInAnyCase) {
  start("a", run_with({}), 5);
  const auto before = content_of(place("a"));
  for (const char* other :
       {"network.arguments={sizes: [16, 9, 3]}",
        "optimizer={name: adam, learning_rate: 0.1}", "global_batch=4",
        "loss=mse"}) {  // its metrics differ from those of classes
    SCOPED_TRACE(other);
    EXPECT_THROW(resume("a", run_with({other}), /*accepts_changes=*/true),
                 UsageError);
    expect_untouched(before, place("a"));
  }
}

// The config is the same, but its files have changed.
TEST_F(Resume, AnotherTrainingSetIsAnotherResult) {
  const auto resume_with = [&](std::int64_t examples, bool accepts_changes) {
    DataSets sets = open_data(run_with({}));
    sets.train = std::make_shared<Slice>(sets.train, 0, examples);
    with_one_rank([&](const comm::Group& group) {
      run_in(group, place("a"), run_with({}),
             {.is_resumed = true,
              .accepts_changes = accepts_changes,
              .data = sets});
    });
  };
  start("a", run_with({"output.checkpoint_every=1"}), 5);
  const auto before = content_of(place("a"));
  const std::int64_t whole = open_data(run_with({})).train->size();
  for (const bool accepts : {false, true}) {
    expect_throws<UsageError>(
        [&] { resume_with(whole - 2, accepts); },
        {concat("training set of ", whole, " examples, but this one has ",
                whole - 2),
         "within epoch"});
    expect_untouched(before, place("a"));
  }
  resume_with(whole, false);
}

// Errors of strategies, found after config and checkpoint were accepted.
TEST_F(Resume, WhatALearnerRefusesLeavesEverythingAsItWas) {
  start("a", run_with({}), 5);
  // The run would continue from the previous checkpoint and set this one aside.
  fs::resize_file(place("a") / "checkpoints/step-0000000005/weights.pt", 10);
  const std::string routes = place("routes.json");
  write_file_atomically(routes,
                        R"({"skips_zeros": false, "routes": {"x": "dad"}})");
  const auto before = content_of(place("a"));
  const std::vector<std::vector<std::string>> cases{
      {"parallel.strategy=auto", "dad.plan=" + routes},
      {"parallel.strategy=dad", "dad.two_way=true"}};
  for (const auto& sets : cases) {
    SCOPED_TRACE(sets.back());
    EXPECT_THROW(resume("a", run_with(sets), /*accepts_changes=*/true),
                 UsageError);
    expect_untouched(before, place("a"));
    EXPECT_THROW(start("b", run_with(sets)), UsageError);
    EXPECT_FALSE(fs::exists(place("b")));
  }
}

TEST_F(Resume, DifferencesAreShown) {
  start("a", run_with({}), 5);
  expect_throws<UsageError>(
      [&] {
        resume("a", run_with({"optimizer.learning_rate=0.2", "clip_norm=2",
                              "data.workers=0"}));
      },
      {"\n  optimizer.learning_rate: 0.1 -> 0.2", "\n  clip_norm: 0 -> 2",
       "--accept-changes"});
  const std::string text = error_of<UsageError>([&] {
    resume("a", run_with({"clip_norm=2", "data.workers=0"}));
  });
  EXPECT_EQ(text.find("workers"), text.npos) << text;
}

TEST_F(Resume, AcceptedChangesGoOn) {
  start("a", run_with({}), 5);
  resume("a", run_with({"optimizer.learning_rate=0.2"}), true);
  EXPECT_NE(out_.str().find("changed: optimizer.learning_rate from 0.1 to 0.2"),
            std::string::npos)
      << out_.str();
  const RunConfig now = read_config(place("a") / "config.yaml");
  EXPECT_EQ(now.optimizer.learning_rate, 0.2);
  EXPECT_EQ(summary("a")["steps"], 12);
}

TEST_F(Resume, AValueThatWasNotThereIsShown) {
  start("a", run_with({}), 5);
  resume("a", run_with({"dad.routes={0.weight: gradient}"}), true);
  EXPECT_NE(
      out_.str().find("changed: dad.routes.0.weight from unset to gradient"),
      std::string::npos)
      << out_.str();
}

TEST_F(Resume, SettingsOfOutputAndLoadingMayChange) {
  const RunConfig config = run_with({});
  const auto whole = start("whole", config);
  start("a", config, 5);
  const auto rest = resume(
      "a", run_with({"data.workers=0", "output.log_every=1", "output.keep=3",
                     "output.checkpoint_every=2", "check_weights_every=1",
                     "on_non_finite=skip", "output.tensorboard=false"}));
  EXPECT_TRUE(has_same_bits(whole.weights, rest.weights));
}

TEST_F(Resume, AFinishedRunIsLeftAsItIs) {
  const RunConfig config = run_with({"data.validation=5"});
  const auto first = start("a", config);
  const auto before = content_of(place("a"));
  const auto again = resume("a", config);
  expect_untouched(before, place("a"));
  EXPECT_NE(out_.str().find("has finished after epoch 4"), std::string::npos)
      << out_.str();
  EXPECT_EQ(again.ending, Ending::kFinished);
  EXPECT_EQ(again.steps, first.steps);
  EXPECT_EQ(again.test->loss, first.test->loss);
  EXPECT_EQ(again.validation->accuracy, first.validation->accuracy);
  EXPECT_EQ(again.seconds, first.seconds);
  EXPECT_TRUE(has_same_bits(first.weights, again.weights));
}

// More epochs continue a run, without acceptance if its steps are unchanged.
TEST_F(Resume, MoreEpochsContinueAFinishedRun) {
  const auto whole = start("whole", run_with({"epochs=6"}));
  start("a", run_with({}));
  const json before = summary("a");
  const auto more = resume("a", run_with({"epochs=6"}));
  EXPECT_TRUE(has_same_bits(whole.weights, more.weights));
  EXPECT_GT(summary("a")["seconds"], before["seconds"]);
  EXPECT_GT(summary("a")["batch_duration"], before["batch_duration"]);
}

// More epochs stretch a cosine schedule, which changes the steps and requires
// acceptance.
TEST_F(Resume, AScheduleThatDependsOnTheEpochsMustBeAccepted) {
  start("a", small_run());
  EXPECT_THROW(resume("a", small_run({"epochs=6"})), UsageError);
  EXPECT_EQ(resume("a", small_run({"epochs=6"}), true).steps, 18);
}

// Interrupted in the second epoch, and again between the last checkpoint and
// the summary: nothing is lost from the earlier parts.
TEST_F(Resume, TheSummaryIsThatOfTheWholeRun) {
  const RunConfig config = run_with({"data.validation=5"});
  start("whole", config);
  const auto part = start("a", config, 5);
  ASSERT_EQ(part.ending, Ending::kStoppedBySignal);
  const json stopped = summary("a");
  EXPECT_EQ(stopped["ending"], "stopped by a signal");
  resume("a", config);
  const json whole = summary("whole"), both = summary("a");
  EXPECT_EQ(both["ending"], "finished");
  for (const char* same :
       {"steps", "epochs", "train_loss", "validation_loss", "test_loss",
        "bytes_sent", "best", "best_step", "skipped_steps"})
    EXPECT_EQ(both.at(same), whole.at(same)) << same;
  for (const char* grown : {"seconds", "batch_duration", "forward_duration"})
    EXPECT_GT(both.at(grown), stopped.at(grown)) << grown;
  EXPECT_GE(both.at("seconds").get<double>(),
            both.at("batch_duration").get<double>() / 1000);

  const fs::path file = place("a") / "summary.json";
  fs::remove(file);
  resume("a", config);
  for (const char* same :
       {"train_loss", "validation_loss", "test_loss", "bytes_sent",
        "batch_duration", "epochs", "seconds_per_epoch", "exchange_share"})
    EXPECT_EQ(summary("a").at(same), both.at(same)) << same;
}

// In log.jsonl an epoch counts all its steps.
TEST_F(Resume, TheEpochThatWasInterruptedHasAllItsSteps) {
  const RunConfig config = run_with({});
  start("a", config, 5);  // second of three steps in the second epoch
  resume("a", config);
  double steps = 0, epochs = 0;
  for (const std::string& line : lines_in(place("a") / "log.jsonl")) {
    const json row = json::parse(line);
    if (row["kind"] == "batch") steps += row["batch_duration"].get<double>();
    if (row["kind"] == "epoch") epochs += row["batch_duration"].get<double>();
  }
  EXPECT_NEAR(steps, epochs, 1e-9 * steps);
}

TEST_F(Resume, ARunWithoutCheckpointBeginsAnew) {
  start("a", run_with({}), 5);
  remove_tree(place("a") / "checkpoints");
  const auto before = content_of(place("a"));
  expect_throws<UsageError>([&] { resume("a", run_with({"seed=8"})); },
                            {"seed: 5 -> 8", "--accept-changes"});
  expect_untouched(before, place("a"));
  EXPECT_EQ(resume("a", run_with({})).steps, 12);
  remove_tree(place("a") / "checkpoints");
  EXPECT_EQ(resume("a", run_with({"seed=8"}), true).steps, 12);
  EXPECT_EQ(read_config(place("a") / "config.yaml").seed, 8);
}

// An empty folder, as created by a sweep.
TEST_F(Resume, AFolderWithoutAnythingBegins) {
  fs::create_directory(place("a"));
  EXPECT_EQ(resume("a", run_with({})).steps, 12);
  fs::create_directory(place("b"));
  write_file_atomically(place("b") / "output.txt", "job 1\n");
  EXPECT_EQ(resume("b", run_with({})).steps, 12);
}

TEST_F(Resume, AFolderOfSomethingElseIsLeftAsItIs) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"log.jsonl", "mine\n"},
      {"notes.txt", "mine\n"},
      {"config.yaml", "epochs: 4  # mine\n"},
      {"config.yaml", "server: {port: 80}\n"},
      {"config.yaml", ""}};
  for (const auto& [name, text] : cases) {
    SCOPED_TRACE(name + " " + text);
    remove_tree(place("a"));
    fs::create_directory(place("a"));
    write_file_atomically(place("a") / name, text);
    const auto before = content_of(place("a"));
    for (const bool accepts : {false, true})
      expect_throws<UsageError>([&] { resume("a", run_with({}), accepts); },
                                {place("a").string(), name, "--output"});
    expect_untouched(before, place("a"));
  }
}

TEST_F(Resume, CheckpointsWithoutConfigMustBeAccepted) {
  start("a", run_with({}), 5);
  fs::remove(place("a") / "config.yaml");
  const auto before = content_of(place("a"));
  for (const char* set : {"seed=5", "optimizer.learning_rate=0.2"}) {
    expect_throws<UsageError>([&] { resume("a", run_with({set})); },
                              {"config.yaml", "--accept-changes"});
    expect_untouched(before, place("a"));
  }
  EXPECT_EQ(resume("a", run_with({}), true).steps, 12);
}

// The first epoch, of 3 steps, is the best.
RunConfig run_with_best(std::vector<std::string> sets = {}) {
  sets.insert(sets.end(), {"data.validation=5", "early_stopping.min_change=1e9",
                           "output.keep=1"});
  return run_with(sets);
}

TEST_F(Resume, TheBestIsKnownWithoutItsLink) {
  const auto whole = start("whole", run_with_best());
  EXPECT_EQ(whole.tested_step, 3);
  for (const bool is_stale : {false, true}) {
    const std::string name = is_stale ? "stale" : "gone";
    start(name, run_with_best(), 11);
    const fs::path checkpoints = place(name) / "checkpoints";
    const std::string latest = fs::read_symlink(checkpoints / "latest");
    fs::remove(checkpoints / "best");
    if (is_stale) fs::create_symlink(latest, checkpoints / "best");
    const auto rest = resume(name, run_with_best());
    EXPECT_EQ(rest.test->loss, whole.test->loss) << name;
    EXPECT_EQ(summary(name)["tested_step"], 3) << name;
    EXPECT_EQ(fs::read_symlink(checkpoints / "best"), "step-0000000003");
  }
}

TEST_F(Resume, ABestThatIsLostIsSaid) {
  for (const bool is_damaged : {false, true}) {
    const std::string name = is_damaged ? "damaged" : "missing";
    start(name, run_with_best(), 11);
    const fs::path best = place(name) / "checkpoints" / "step-0000000003";
    if (is_damaged)
      write_file_atomically(best / "weights.pt", "spoilt");
    else
      remove_tree(best);
    testing::internal::CaptureStderr();
    const auto rest = resume(name, run_with_best());
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("step-0000000003"), told.npos) << told;
    EXPECT_NE(told.find("restarts"), told.npos) << told;
    EXPECT_GT(rest.tested_step, 3);
    EXPECT_EQ(summary(name)["tested_step"], rest.tested_step);
    EXPECT_EQ(summary(name)["best_step"], rest.tested_step);
  }
}

// The weights may be intact, and the result of the run depends on them.
TEST_F(Resume, ABestThatCannotBeReadIsAnError) {
  start("a", run_with_best(), 11);
  const fs::path file =
      place("a") / "checkpoints" / "step-0000000003" / "weights.pt";
  const fs::path elsewhere = place("a") / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_directory(file);
  expect_throws<IoError>([&] { resume("a", run_with_best()); },
                         {file.string()});
  fs::remove(file);
  fs::rename(elsewhere, file);
  EXPECT_EQ(resume("a", run_with_best()).tested_step, 3);
}

// Resumed after the last step, so only the last weights remain to be tested.
TEST_F(Resume, WithoutTheBestTheLastWeightsAreTested) {
  start("a", run_with_best());
  fs::remove(place("a") / "summary.json");
  remove_tree(place("a") / "checkpoints" / "step-0000000003");
  set_log_level(LogLevel::kOff);
  EXPECT_EQ(resume("a", run_with_best()).tested_step, 12);
  set_log_level(LogLevel::kWarn);
  EXPECT_EQ(summary("a")["tested_step"], 12);
}

TEST_F(Resume, ACopyWithoutLinksGoesOn) {
  const auto whole = start("whole", run_with_best());
  start("a", run_with_best(), 11);
  const std::string copy =
      concat("cp -rL '", place("a").string(), "' '", place("b").string(), "'");
  ASSERT_EQ(std::system(copy.c_str()), 0);
  const auto rest = resume("b", run_with_best());
  EXPECT_TRUE(has_same_bits(whole.weights, rest.weights));
  EXPECT_EQ(whole.test->loss, rest.test->loss);
  EXPECT_TRUE(fs::is_symlink(place("b") / "checkpoints" / "latest"));
}

// A loss of about 1 is not an accuracy to exceed. In the second case the config
// was written, but no checkpoint.
TEST_F(Resume, AnotherMetricStartsTheSearchAnew) {
  const RunConfig other =
      run_with({"data.validation=5", "early_stopping.metric=accuracy"});
  for (const bool is_second : {false, true}) {
    const std::string name = is_second ? "b" : "a";
    start(name, run_with({"data.validation=5"}), 11);
    if (is_second) {
      RunConfig written = other;
      written.output.folder = place(name);
      write_file_atomically(place(name) / "config.yaml", print_config(written));
    }
    resume(name, other, /*accepts_changes=*/!is_second);
    const json end = summary(name);
    EXPECT_EQ(end["best_metric"], "accuracy");
    EXPECT_LE(end["best"].get<double>(), 1.0);
    EXPECT_GT(end["best_step"], 6);
  }
}

TEST(ConfigChanges, ListEveryKeyThatDiffers) {
  const RunConfig before = small_run();
  EXPECT_TRUE(changes_between(before, before).empty());
  const auto changes = changes_between(
      before, small_run({"data.transforms=[pad: {pixels: 1}]", "threads=[1, 2]",
                         "network.arguments.dropout=0.5", "output.keep=7",
                         "dad.log_layers=true"}));
  std::map<std::string, ConfigChange> by_key;
  for (const ConfigChange& one : changes) by_key[one.key] = one;
  ASSERT_EQ(by_key.size(), 5u);
  EXPECT_EQ(by_key.at("data.transforms").before, "[]");
  EXPECT_EQ(by_key.at("data.transforms").after, "[pad: {pixels: 1}]");
  EXPECT_EQ(by_key.at("threads").after, "[1, 2]");
  EXPECT_EQ(by_key.at("network.arguments.dropout").after, "0.5");
  for (const auto& [key, change] : by_key)
    EXPECT_EQ(change.changes_result,
              key == "data.transforms" || key == "network.arguments.dropout")
        << key;
}

}  // namespace
}  // namespace sheaf::train
