#include "sheaf/cli/plan/plan_report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/plan/plan_inputs.hpp"
#include "sheaf/report/page/page_files.hpp"
#include "tests/cli/call_sheaf.hpp"
#include "tests/plan/trace/model_trace.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::cli {
namespace {

using plan::ModelTrace;
using plan::Precision;
using report::PlanWork;

class PlanReports : public testing::Test {
 protected:
  std::string file(const char* name) const {
    return (folder_.path() / name).string();
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // One kind of device with this number of workers.
  report::PlanPage page_of(int workers, const std::string& measured = "") {
    PlanInputs inputs;
    inputs.traces = {f32_, bf16_};
    inputs.workers = {workers};
    std::deque<plan::Recorded> recorded;
    const plan::Cluster cluster = make_cluster(inputs, recorded);
    chosen_ = plan::choose_plan(cluster, {});
    return plan_report(
        {&cluster, &chosen_, plan::IndicatorKind::kVariance, measured});
  }
  TemporaryFolder folder_;
  ModelTrace high_{plan::small_model(), plan::uniform(Precision::kF32), true};
  ModelTrace low_{plan::small_model(), plan::uniform(Precision::kBf16), true};
  std::string f32_ = high_.write().string();
  std::string bf16_ = low_.write().string();
  plan::ChosenPlan chosen_;
};

double path_ms(const report::PlanPage& page) {
  double sum = 0;
  for (const report::PlanPathRow& row : page.path) sum += row.ms;
  return sum;
}

TEST_F(PlanReports, HaveAllPartsOfThePlan) {
  const report::PlanPage page = page_of(1);
  ASSERT_EQ(page.steps.size(), 4u);
  EXPECT_TRUE(page.steps[3].is_chosen);
  ASSERT_EQ(page.layers.size(), 3u);
  EXPECT_EQ(page.layers[1].name, "conv2");
  EXPECT_EQ(page.layers[1].precision, to_string(chosen_.plans[0].of("conv2")));
  // Forward and backward of 500 us in f32, and two gaps of 1 us.
  EXPECT_NEAR(page.layers[1].ms.at("f32"), 1.5, 0.01);
  EXPECT_NEAR(page.layers[1].ms.at("bf16"), 0.6, 0.01);
  EXPECT_EQ(page.layers[1].indicator.at("f32"), 0);
  EXPECT_GT(page.layers[1].indicator.at("bf16"), 0);
  EXPECT_EQ(page.nodes.size(), 6u);
  EXPECT_EQ(page.edges.size(), 6u);
  EXPECT_EQ(page.trade_offs.size(), chosen_.trade_offs.size());
  EXPECT_NEAR(path_ms(page), page.steps[3].step_ms, 1e-6);
}

TEST_F(PlanReports, BarsAreOfThreadsAndStreams) {
  const report::PlanPage page = page_of(1);
  ASSERT_EQ(page.timelines.size(), 1u);
  const report::PlanTimeline& timeline = page.timelines[0];
  EXPECT_EQ(timeline.lanes,
            (std::vector<std::string>{"thread", "thread 2", "stream"}));
  double device = 0, last = 0;
  bool has_critical = false;
  for (const report::PlanBar& bar : timeline.bars) {
    ASSERT_LT(bar.lane, 3u);
    if (bar.lane == 0 && bar.work == PlanWork::kBackward) ADD_FAILURE();
    if (bar.lane != 2) continue;
    EXPECT_GE(bar.begin_ms, last);
    last = bar.begin_ms + bar.ms;
    device += bar.ms;
    has_critical |= bar.is_critical;
  }
  // In this model only kernels take a significant time.
  EXPECT_NEAR(device, timeline.step_ms, 0.1 * timeline.step_ms);
  EXPECT_TRUE(has_critical);
}

TEST_F(PlanReports, WorkersHaveAnExchange) {
  const report::PlanPage page = page_of(4);
  const auto& lanes = page.timelines[0].lanes;
  ASSERT_NE(std::find(lanes.begin(), lanes.end(), "exchange"), lanes.end());
  std::size_t exchanges = 0;
  for (const report::PlanBar& bar : page.timelines[0].bars)
    if (bar.work == PlanWork::kExchange && lanes[bar.lane] == "exchange")
      ++exchanges;
  EXPECT_GE(exchanges, 1u);
  EXPECT_NEAR(path_ms(page), page.steps[3].step_ms, 1e-6);
}

TEST_F(PlanReports, OfTwoDevicesNameThem) {
  PlanInputs inputs;
  inputs.traces = {f32_, bf16_};
  std::deque<plan::Recorded> recorded;
  plan::Cluster cluster = make_cluster(inputs, recorded);
  cluster.kinds.push_back(cluster.kinds[0]);
  cluster.placement = topo::placement_of(topo::Dims{{2}});
  const plan::ChosenPlan chosen = plan::choose_plan(cluster, {});
  const report::PlanPage page = plan_report({&cluster, &chosen});
  EXPECT_EQ(page.devices.size(), 2u);
  EXPECT_EQ(page.layers.size(), 6u);
  EXPECT_EQ(page.layers[5].device, 1u);
  EXPECT_EQ(page.nodes[0].precisions.size(), 2u);
  EXPECT_EQ(page.timelines[0].lanes[0], "GPU thread");
  EXPECT_NE(page.trade_offs.back().label.find(" on GPU -> "),
            std::string::npos);
}

// A trace without a record of its model.
TEST_F(PlanReports, WithoutStatisticsSayWhatIsMissing) {
  PlanInputs inputs;
  inputs.traces = {high_.write_plain().string()};
  std::deque<plan::Recorded> recorded;
  const plan::Cluster cluster = make_cluster(inputs, recorded);
  const plan::ChosenPlan chosen = plan::choose_plan(cluster, {});
  const report::PlanPage page = plan_report({&cluster, &chosen});
  EXPECT_TRUE(page.trade_offs.empty());
  ASSERT_FALSE(page.notes.empty());
  EXPECT_TRUE(has(page.notes[0], "no statistics of layers"));
  EXPECT_TRUE(has(page.title, "trace.json"));
  ASSERT_EQ(page.layers.size(), 3u);
  EXPECT_EQ(page.layers[0].name, "conv2d#0");
  EXPECT_TRUE(page.layers[0].indicator.empty());
  EXPECT_TRUE(std::isnan(page.steps[0].indicator));
  EXPECT_FALSE(page.timelines[0].bars.empty());
  EXPECT_NEAR(path_ms(page), page.steps.back().step_ms, 1e-6);
  const auto data = nlohmann::json::parse(report::plan_page_data(page));
  EXPECT_EQ(data["notes"].size(), page.notes.size());
  EXPECT_TRUE(data["steps"][0]["indicator"].is_null());
}

TEST_F(PlanReports, MeasuredStandsBesidePredicted) {
  if (report::echarts_script().empty())
    SHEAF_SKIP_MISSING("built without ECharts");
  const std::string plan = file("plan.json"), html = file("plan.html");
  const std::vector<std::string> words = {
      "plan", f32_, bf16_, "--slack", "30", "-o", plan, "--report", html};
  const CallOutcome first = call_sheaf(words);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(has(first.out, html)) << first.out;
  EXPECT_FALSE(has(read(html), "\"measured\",\"names\""));
  const ModelTrace run(plan::small_model(), plan::read_precision_plan(plan),
                       false);
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--measured", run.write().string()});
  const CallOutcome second = call_sheaf(more);
  EXPECT_EQ(second.code, 0) << second.err;
  const std::string text = read(html);
  const auto begin = text.find("id=\"data\">") + 10;
  const auto data = nlohmann::json::parse(
      text.substr(begin, text.find("</script>", begin) - begin));
  ASSERT_EQ(data["timelines"].size(), 2u);
  EXPECT_EQ(data["timelines"][1]["name"], "measured");
  EXPECT_NEAR(data["timelines"][1]["step_ms"], run.step_us() * 1e-3, 1e-3);
  EXPECT_NEAR(data["timelines"][0]["step_ms"].get<double>() /
                  data["timelines"][1]["step_ms"].get<double>(),
              1, 0.02);
  EXPECT_EQ(data["timelines"][0]["lanes"], data["timelines"][1]["lanes"]);
  EXPECT_EQ(data["steps"].back()["name"], "chosen, measured");
}

TEST_F(PlanReports, ErrorsWriteNoFiles) {
  const auto is_reported = [&](const std::vector<std::string>& words,
                               const char* part, int code) {
    std::vector<std::string> all = {"plan", f32_, bf16_, "-o",
                                    file("plan.json")};
    all.insert(all.end(), words.begin(), words.end());
    const CallOutcome shown = call_sheaf(all);
    EXPECT_EQ(shown.code, code) << shown.err;
    EXPECT_TRUE(has(shown.err, part)) << shown.err;
    EXPECT_FALSE(std::filesystem::exists(file("plan.json")));
    EXPECT_FALSE(std::filesystem::exists(file("plan.html")));
  };
  is_reported({"--measured", f32_}, "--report", 2);
  if (report::echarts_script().empty()) return;
  auto other = plan::small_model();
  other[1].op = "aten::gelu";
  const ModelTrace foreign(other, plan::uniform(Precision::kF32), false);
  is_reported(
      {"--report", file("plan.html"), "--measured", foreign.write().string()},
      "not traces of one model", 2);
  is_reported({"--report", file("plan.html"), "--measured", file("none.json")},
              "none.json", 5);
}

}  // namespace
}  // namespace sheaf::cli
