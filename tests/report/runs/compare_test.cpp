#include "sheaf/report/runs/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tests/report/runs/run_files.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;

class Compare : public testing::Test {
 protected:
  // "b" takes 10 ms longer per batch than "a", has fewer batches, and has an
  // additional key.
  std::vector<report::Run> runs() const {
    const std::vector<fs::path> folders{
        files_.write_batches("x_a", 30, 10),
        files_.write_batches("x_b", 25, 20, ", \"exchange_duration\": 2")};
    return read_runs(folders);
  }
  RunFiles files_;
};

TEST_F(Compare, DropsTheWarmUpAndAlignsTheLengths) {
  const auto comparisons = compare(runs());
  ASSERT_EQ(comparisons.size(), 1u);
  const Comparison& one = comparisons[0];
  EXPECT_EQ(one.key, "batch_duration");
  ASSERT_EQ(one.runs.size(), 2u);
  EXPECT_EQ(one.runs[0].values.size(), 20u);
  EXPECT_EQ(one.runs[1].values.size(), 20u);
  EXPECT_EQ(one.runs[0].values[0], 15);   // 10 ms and 5 batches
  EXPECT_EQ(one.runs[0].values[19], 34);  // not the last of this run
  EXPECT_EQ(one.runs[1].values[0], 25);
  EXPECT_EQ(one.runs[0].bytes, 1000);
  ASSERT_EQ(one.notes.size(), 1u);
  EXPECT_EQ(one.notes[0],
            "only 20 batches are compared, the number that b has; longer runs: "
            "a (25)");
}

TEST_F(Compare, AllBatchesOnRequest) {
  const auto comparisons = compare(runs(), {.warm_up = 0});
  EXPECT_EQ(comparisons[0].runs[1].values.size(), 25u);
  EXPECT_EQ(comparisons[0].runs[1].values[0], 20);
}

TEST_F(Compare, AMissingKeyNamesRunsAndCommonKeys) {
  const auto all = runs();
  const std::string text = error_of<UsageError>([&] {
    compare(all, {.keys = {"batch_duration", "exchange_duration", "los"}});
  });
  for (const char* part : {"'exchange_duration' is missing in a (", "x_a)",
                           "'los' is missing in a (",
                           "all runs have batch_duration, bytes_sent, "
                           "loss;",
                           "--skip-missing"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  EXPECT_EQ(text.find("'exchange_duration' is missing in a, b"),
            std::string::npos);
  EXPECT_NE(error_of<UsageError>([&] {
              compare(all, {.keys = {"los"}});
            }).find("did you mean 'loss'"),
            std::string::npos);
}

TEST_F(Compare, SkipMissingDrawsTheOthers) {
  const auto comparisons = compare(
      runs(), {.keys = {"none", "exchange_duration"}, .skip_missing = true});
  ASSERT_EQ(comparisons.size(), 1u);
  ASSERT_EQ(comparisons[0].runs.size(), 1u);
  EXPECT_EQ(comparisons[0].runs[0].label, "b");
  EXPECT_EQ(comparisons[0].notes.size(), 1u);
  const auto all = runs();
  expect_throws<UsageError>(
      [&] { compare(all, {.keys = {"none"}, .skip_missing = true}); },
      {"no run has any of the keys none", "batch_duration"});
}

TEST_F(Compare, ARunShorterThanTheWarmUpIsNamed) {
  const auto all = runs();
  expect_throws<UsageError>([&] { compare(all, {.warm_up = 25}); },
                            {"the run b", "25 batches", "--warm-up"});
}

TEST_F(Compare, TheTableHasMedianPercentileTotalAndSpeedUp) {
  const auto comparisons = compare(runs());
  std::ostringstream csv;
  table_of(comparisons, TableFormat::kCsv).print(csv, TableFormat::kCsv);
  // a: 15 to 34 ms; b: 25 to 44 ms. The 95th percentile lies at 0.95 * 19 =
  // 18.05 steps above the smallest.
  EXPECT_EQ(
      csv.str(),
      "key,run,batches,median,p95,total,unit,speed_up,bytes_per_batch\n"
      "batch_duration,a,20,24.5,33.05,490.0,ms,1.0,1000.0\n"
      "batch_duration,b,20,34.5,43.05,690.0,ms,0.7101449275362319,1000.0\n");
}

TEST_F(Compare, OnlyTimesAndBytesAreAddedUp) {
  const auto comparisons = compare(runs(), {.keys = {"loss", "bytes_sent"}});
  std::ostringstream text;
  table_of(comparisons, TableFormat::kText).print(text, TableFormat::kText);
  EXPECT_NE(text.str().find("19.53 KiB"), std::string::npos) << text.str();
  std::ostringstream csv;
  table_of(comparisons, TableFormat::kCsv).print(csv, TableFormat::kCsv);
  EXPECT_NE(csv.str().find(",,,,1000.0\nloss,b"), std::string::npos)
      << csv.str();
}

TEST(Units, FollowTheNames) {
  EXPECT_EQ(unit_of("batch_duration"), "ms");
  EXPECT_EQ(unit_of("exchange_busy"), "ms");
  EXPECT_EQ(unit_of("bytes_sent"), "bytes");
  EXPECT_EQ(unit_of("loss"), "");
}

}  // namespace
}  // namespace sheaf::report
