#include "sheaf/report/page/page.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sheaf/report/page/page_files.hpp"
#include "tests/report/runs/run_files.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::report {
namespace {

using nlohmann::json;

class Page : public testing::Test {
 protected:
  json data_of(const std::vector<std::filesystem::path>& folders,
               const PageOptions& options = {}) const {
    return json::parse(page_data_of(read_runs(folders), options));
  }
  RunFiles files_;
};

TEST_F(Page, LongSeriesAreThinned) {
  const json data = data_of({files_.write_batches("a", 5000, 0)});
  const json& batch = data["runs"][0]["batch"];
  EXPECT_EQ(batch["every"], 3);
  EXPECT_EQ(batch["count"], 5000);
  ASSERT_EQ(batch["step"].size(), 1667u);
  EXPECT_EQ(batch["step"][0], 1);  // the mean of 0, 1 and 2
  EXPECT_EQ(batch["columns"]["batch_duration"][1], 4);
  EXPECT_EQ(batch["columns"].count("epoch"), 0u);
}

TEST_F(Page, MeansLeaveOutTheWarmUp) {
  const json data = data_of({files_.write_batches("a", 10, 0)});
  EXPECT_EQ(data["runs"][0]["statistics"]["batch_duration"]["mean"], 7);
  EXPECT_EQ(data["runs"][0]["statistics"]["bytes_sent"]["p95"], 1000);
  const json few = data_of({files_.write_batches("b", 3, 0)});
  EXPECT_EQ(few["runs"][0]["statistics"]["batch_duration"]["mean"], 1);
  const json equal = data_of({files_.write_batches("c", 5, 0)}, {.warm_up = 5});
  EXPECT_EQ(equal["runs"][0]["statistics"]["batch_duration"]["mean"], 2);
}

TEST_F(Page, WhatIsNotThereIsNull) {
  const json run = data_of({files_.write_batches("a", 1, 0)})["runs"][0];
  EXPECT_TRUE(run["layers"].is_null());
  EXPECT_TRUE(run["timeline"].is_null());
  EXPECT_TRUE(run["epoch"].is_null());
  const json empty = data_of({files_.write("b", "log.jsonl", "")});
  EXPECT_TRUE(empty["runs"][0]["batch"].is_null());
}

TEST_F(Page, EpochsKnowTheTrainingTime) {
  const auto folder =
      files_.write("a", "log.jsonl",
                   R"({"kind": "batch", "step": 0, "batch_duration": 1500})"
                   "\n"
                   R"({"kind": "batch", "step": 1, "batch_duration": 500})"
                   "\n"
                   R"({"kind": "epoch", "step": 1, "validation_loss": 0.5})"
                   "\n");
  const json epoch = data_of({folder})["runs"][0]["epoch"];
  EXPECT_EQ(epoch["seconds"], json({2}));
  EXPECT_EQ(epoch["columns"]["validation_loss"], json({0.5}));
}

TEST_F(Page, LayersJoinRoutesAndRows) {
  const auto folder =
      files_.write("a", "log.jsonl",
                   R"({"kind": "layers", "step": 0, "layers": [{"name": "w", )"
                   R"("route": "rank-dad", "bytes": 100, "rank": 4}]})"
                   "\n"
                   R"({"kind": "layers", "step": 10, "layers": [{"name": "w", )"
                   R"("route": "rank-dad", "bytes": 50, "rank": 2}, )"
                   R"({"name": "b", "route": "gradient", "bytes": 8}]})"
                   "\n");
  files_.write("a", "routes.json",
               R"({"layers": [{"name": "w", "route": "rank-dad",
               "reason": "cheaper", "rows": 64, "in": 3, "out": 5}]})");
  const json layers = data_of({folder})["runs"][0]["layers"];
  EXPECT_EQ(layers["step"], json({0, 10}));
  EXPECT_EQ(layers["layers"][0]["bytes"], 75);
  EXPECT_EQ(layers["layers"][0]["rank"], json({4, 2}));
  EXPECT_EQ(layers["layers"][0]["reason"], "cheaper");
  EXPECT_EQ(layers["layers"][1]["bytes"], 8);
  EXPECT_EQ(layers["layers"][1].count("rank"), 0u);
}

TEST_F(Page, SettingsThatDifferAreMarked) {
  const auto a = files_.write_batches("a", 1, 0);
  const auto b = files_.write_batches("b", 1, 0);
  files_.write("a", "config.yaml", "epochs: 1\nseed: 3\n");
  files_.write("b", "config.yaml", "epochs: 2\nseed: 3\nclip_norm: 1\n");
  const json config = data_of({a, b})["config"];
  ASSERT_EQ(config.size(), 3u);
  EXPECT_EQ(
      config[0],
      json({{"key", "epochs"}, {"differs", true}, {"values", {"1", "2"}}}));
  EXPECT_EQ(config[1]["differs"], false);
  EXPECT_EQ(config[2]["values"], json({nullptr, "1"}));
}

TEST_F(Page, NothingFromFilesBecomesCode) {
  if (echarts_script().empty()) SHEAF_SKIP_MISSING("built without ECharts");
  const auto folder = files_.write_batches("a", 6, 0);
  files_.write("a", "config.yaml", "loss: \"</script><b>@SCRIPT@\\x80\"\n");
  const std::vector<std::string> labels{"<img>&</script>"};
  const std::vector<std::filesystem::path> folders{folder};
  const std::string page = page_of(read_runs(folders, labels));
  EXPECT_EQ(page.find("<img>"), std::string::npos);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_NE(page.find("<title>&lt;img>&amp;"), std::string::npos);
  EXPECT_NE(page.find("@SCRIPT@"), std::string::npos);  // as a text of the data
}

TEST_F(Page, FetchesNothing) {
  if (echarts_script().empty()) SHEAF_SKIP_MISSING("built without ECharts");
  const std::vector<std::filesystem::path> folders{
      files_.write_batches("a", 6, 0)};
  const std::string page = page_of(read_runs(folders));
  for (const char* part : {"src=", "@import", "<link rel=\"stylesheet\""})
    EXPECT_EQ(page.substr(0, page.find("id=\"data\"")).find(part),
              std::string::npos)
        << part;
}

// std::stod throws for such numbers.
TEST(JsonNumber, MayBeTiny) {
  EXPECT_EQ(json_number(5e-324).dump(), "5e-324");
  EXPECT_EQ(json_number(1e-310).get<double>(), 1e-310);
  EXPECT_EQ(json_number(1.7976931348623157e308).get<double>(), 1.79769e308);
}

TEST(Thin, GivesMeansWithoutGaps) {
  EXPECT_EQ(thinning(2000, 2000), 1u);
  EXPECT_EQ(thinning(2001, 2000), 2u);
  const std::vector<double> values{1, NAN, 3, 5, NAN, NAN, 9};
  const std::vector<double> means = thinned(values, 2);
  ASSERT_EQ(means.size(), 4u);
  EXPECT_EQ(means[0], 1);
  EXPECT_EQ(means[1], 4);
  EXPECT_TRUE(std::isnan(means[2]));
  EXPECT_EQ(means[3], 9);
}

}  // namespace
}  // namespace sheaf::report
