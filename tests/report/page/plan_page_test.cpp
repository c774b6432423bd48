#include "sheaf/report/page/plan_page.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "sheaf/report/page/page_files.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::report {
namespace {

using nlohmann::json;

PlanPage small_page() {
  PlanPage page;
  page.title = "Plan for net";
  page.devices = {"1 x GPU"};
  page.precisions = {"f32", "bf16"};
  page.steps = {{"all f32", 10, 0, {100}, 0, false},
                {"chosen", 6.25, 0, {80.5}, 3.5, true}};
  page.layers = {{"conv1",
                  "aten::conv2d",
                  1,
                  0,
                  "bf16",
                  "fastest precision",
                  {{"f32", 2}, {"bf16", 1}},
                  {{"f32", 0}, {"bf16", 0.5}}}};
  page.trade_offs = {{"fastest", 6, 4, true}, {"conv1 -> f32", 7, 3, false}};
  page.timelines = {{"predicted",
                     {"thread", "stream"},
                     {{0, "conv1", 0, 0.5, PlanWork::kForward, false},
                      {1, "conv1", 0.25, 2, PlanWork::kForward, true},
                      {1, "conv1", 2.5, 1, PlanWork::kBackward, true}},
                     6.25}};
  page.path = {{"conv1", "stream", PlanWork::kBackward, 3}};
  page.nodes = {{"conv1", "aten::conv2d", true, 1, {"bf16"}},
                {"aten::relu#0", "aten::relu", false, 1, {"bf16"}}};
  page.edges = {{0, 1}};
  return page;
}

TEST(PlanPage, HoldsWhatItWasGiven) {
  const json data = json::parse(plan_page_data(small_page()));
  EXPECT_EQ(data["steps"][1]["name"], "chosen");
  EXPECT_EQ(data["steps"][1]["step_ms"], 6.25);
  EXPECT_EQ(data["steps"][1]["is_chosen"], true);
  EXPECT_EQ(data["steps"][0]["peak_mib"], json({100}));
  EXPECT_EQ(data["layers"][0]["precision"], "bf16");
  EXPECT_EQ(data["layers"][0]["ms"], json({{"f32", 2}, {"bf16", 1}}));
  EXPECT_EQ(data["layers"][0]["indicator"]["bf16"], 0.5);
  EXPECT_EQ(data["trade_offs"][1]["label"], "conv1 -> f32");
  EXPECT_EQ(data["trade_offs"][1]["is_kept"], false);
  EXPECT_EQ(data["path"][0]["work"], 1);
  EXPECT_EQ(data["nodes"][1]["is_layer"], false);
  EXPECT_EQ(data["edges"], json({{0, 1}}));
}

TEST(PlanPage, BarsShareTheirNames) {
  const json data = json::parse(plan_page_data(small_page()));
  const json& timeline = data["timelines"][0];
  EXPECT_EQ(timeline["names"], json({"conv1"}));
  EXPECT_EQ(timeline["bars"][0], json({0, 0, 0.5, 0, 0, 0}));
  EXPECT_EQ(timeline["bars"][2], json({1, 2.5, 1, 0, 1, 1}));
  EXPECT_EQ(timeline["left_out"], 0);
}

TEST(PlanPage, TheLongestBarsAreKept) {
  PlanPage page = small_page();
  auto& bars = page.timelines[0].bars;
  bars.clear();
  for (std::size_t i = 0; i < kMaxPlanBars + 10; ++i)
    bars.push_back({0, "k", static_cast<double>(i),
                    static_cast<double>(i % 100 + 1), PlanWork::kOther, false});
  bars.push_back({1, "long", 1, 1e6, PlanWork::kOther, false});
  const json timeline = json::parse(plan_page_data(page))["timelines"][0];
  EXPECT_EQ(timeline["bars"].size(), kMaxPlanBars);
  EXPECT_EQ(timeline["left_out"], 11);
  EXPECT_EQ(timeline["bars"][0][2], 1e6);
}

TEST(PlanPage, WhatIsEmptyIsLeftOut) {
  PlanPage page = small_page();
  page.timelines.push_back({"measured", {}, {}, 0});
  page.steps[0].indicator = std::numeric_limits<double>::quiet_NaN();
  const json data = json::parse(plan_page_data(page));
  EXPECT_EQ(data["timelines"].size(), 1u);
  EXPECT_TRUE(data["steps"][0]["indicator"].is_null());
  EXPECT_NO_THROW(json::parse(plan_page_data({})));
}

TEST(PlanPage, NoTextBecomesCode) {
  if (echarts_script().empty()) SHEAF_SKIP_MISSING("built without ECharts");
  PlanPage page = small_page();
  page.title = "</title><img>&";
  page.layers[0].name = "</script><b>@SCRIPT@\x80";
  page.nodes[0].name = "<img src=x>";
  page.timelines[0].bars[0].name = "<!--<script>";
  const std::string text = plan_page(page);
  for (const char* part : {"<img", "</script><b>", "<!--<script>"})
    EXPECT_EQ(text.substr(0, text.find("id=\"data\"") + 20000).find(part),
              std::string::npos)
        << part;
  EXPECT_NE(text.find("<title>&lt;/title>&lt;img>&amp;"), std::string::npos);
  EXPECT_NE(text.find("\\u003cimg src=x>"), std::string::npos);
}

TEST(PlanPage, FetchesNothing) {
  if (echarts_script().empty()) SHEAF_SKIP_MISSING("built without ECharts");
  const std::string text = plan_page(small_page());
  const std::string before = text.substr(0, text.find("id=\"data\""));
  for (const char* part :
       {"src=", "@import", "<link rel=\"stylesheet\"", "url"})
    EXPECT_EQ(before.find(part), std::string::npos) << part;
  EXPECT_NE(before.find("--bf16"), std::string::npos);
  EXPECT_NE(text.find("addGraph()"), std::string::npos);
}

}  // namespace
}  // namespace sheaf::report
