// Runs with a precision plan.
#include <gtest/gtest.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

std::string write_plan(const TemporaryFolder& folder, const std::string& other,
                       const std::string& layers) {
  const auto place = folder.path() / "plan.json";
  write_file_atomically(
      place, concat("{\"version\": 1, \"precision\": {\"other\": \"", other,
                    "\", \"layers\": {", layers, "}}}"));
  return place.string();
}

TEST(Plan, RunsAreCloseToF32AndNotIt) {
  const TemporaryFolder folder;
  const auto plan = write_plan(folder, "bf16", "");
  for (const char* strategy : {"data", "dad", "none"}) {
    const std::string with = concat("parallel={strategy: ", strategy, "}");
    comm::run_threads(
        std::string(strategy) == "none" ? 1 : 2, [&](const comm::Group& group) {
          const auto place = [&](const char* name) {
            return (folder.path() / concat(strategy, name)).string();
          };
          const auto f32 = run_in(group, place("f32"), small_run({with}));
          const auto bf16 =
              run_in(group, place("bf16"), small_run({with, "plan=" + plan}));
          EXPECT_FALSE(has_same_bits(f32.weights, bf16.weights)) << strategy;
          // Weights below 1, twelve steps, each with errors of a few parts in
          // 256.
          EXPECT_LT(largest_difference(f32.weights, bf16.weights), 0.05)
              << strategy;
        });
  }
}

TEST(Plan, F32IsAsWithoutOne) {
  const TemporaryFolder folder;
  const auto plan = write_plan(folder, "f32", "");
  with_one_rank([&](const comm::Group& group) {
    const auto without = run_in(group, folder.path() / "a", small_run());
    const auto with =
        run_in(group, folder.path() / "b", small_run({"plan=" + plan}));
    EXPECT_TRUE(has_same_bits(without.weights, with.weights));
    EXPECT_EQ(without.test->loss, with.test->loss);
  });
}

TEST(Plan, LeNetLearnsUnderAPlan) {
  const TemporaryFolder folder;
  const auto plan = write_plan(folder, "bf16", "");
  const std::vector<std::string> sets{
      "network={name: lenet, arguments: {classes: 3, image_size: 16}}",
      "data.arguments={examples: 240, test_examples: 60, classes: 3, shape: "
      "[1, 16, 16]}",
      "optimizer={name: adam, learning_rate: 0.005}",
      "schedule={name: constant}",
      "global_batch=16",
      "epochs=10"};
  with_one_rank([&](const comm::Group& group) {
    const auto f32 = run_in(group, folder.path() / "a", small_run(sets));
    auto planned = sets;
    planned.push_back("plan=" + plan);
    const auto bf16 = run_in(group, folder.path() / "b", small_run(planned));
    EXPECT_GT(f32.test->accuracy, 0.9);
    EXPECT_GT(bf16.test->accuracy, 0.9);
    EXPECT_NEAR(f32.test->loss, bf16.test->loss, 0.05);
  });
}

TEST(Plan, ErrorsAreReportedBeforeTheFolderIsCreated) {
  const TemporaryFolder folder;
  const auto unknown = write_plan(folder, "f32", "\"layer9\": \"bf16\"");
  with_one_rank([&](const comm::Group& group) {
    const auto place = folder.path() / "run";
    const auto run_with = [&](const std::string& plan) {
      return [&, plan] {
        run_in(group, place.string(), small_run({"plan=" + plan}));
      };
    };
    expect_throws<UsageError>(run_with(unknown), {"--set plan=", "plan.json",
                                                  "'layer9'", "closest names"});
    expect_throws<IoError>(run_with("missing.json"), {"missing.json"});
    write_plan(folder, "f16", "");
    expect_throws<UsageError>(run_with(unknown),
                              {"f16", "a CPU computes layers in f32 and bf16"});
    write_file_atomically(unknown, "{\"version\": 1}");
    expect_throws<IoError>(run_with(unknown), {"is not a plan"});
    EXPECT_FALSE(std::filesystem::exists(place));
  });
}

// Only a forward pass can detect this.
TEST(Plan, UnknownProductsAreErrorsInTheFirstStep) {
  const TemporaryFolder folder;
  const auto plan = write_plan(folder, "f32", "\"matmul#9\": \"bf16\"");
  with_one_rank([&](const comm::Group& group) {
    expect_throws<UsageError>(
        [&] {
          run_in(group, folder.path() / "run", small_run({"plan=" + plan}));
        },
        {"'matmul#9'", "none"});
  });
}

TEST(Plan, InvalidExchangesAreErrors) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "plan.json";
  with_one_rank([&](const comm::Group& group) {
    const auto run_with = [&](const std::string& exchange) {
      write_file_atomically(place, concat("{\"precision\": {\"layers\": {}}, ",
                                          "\"exchange\": ", exchange, "}"));
      return [&] {
        run_in(group, folder.path() / "run",
               small_run({"plan=" + place.string()}));
      };
    };
    expect_throws<UsageError>(run_with(R"({"layers": {"fc": "dad"}})"),
                              {"plan.json", "'fc'"});
    expect_throws<IoError>(run_with(R"({"default": "dda"})"),
                           {"plan.json", "\"dda\""});
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "run"));
    run_with(R"({"layers": {"2": "dad"}})")();  // one rank exchanges nothing
  });
}

TEST(Plan, GoesWithSomeSettingsOnly) {
  expect_throws<UsageError>(
      [] {
        small_run({"plan=a.json", "precision=bf16"});
      },
      {"precision is bf16", "a.json"});
  expect_throws<UsageError>(
      [] {
        small_run({"plan=a.json", "parallel={strategy: spatial, grid: 1x1}"});
      },
      {"spatial"});
}

}  // namespace
}  // namespace sheaf::train
