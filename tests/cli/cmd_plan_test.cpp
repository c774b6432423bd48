#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/call_sheaf.hpp"
#include "tests/plan/trace/model_trace.hpp"

namespace sheaf::cli {
namespace {

using plan::ModelTrace;
using plan::Precision;

class PlanCommand : public testing::Test {
 protected:
  std::string output() const { return (folder_.path() / "plan.json").string(); }
  nlohmann::json written() const {
    std::ifstream file(output());
    return nlohmann::json::parse(file);
  }
  TemporaryFolder folder_;
  ModelTrace high_{plan::small_model(), plan::uniform(Precision::kF32), true};
  ModelTrace low_{plan::small_model(), plan::uniform(Precision::kBf16), true};
  std::string f32_ = high_.write().string();
  std::string bf16_ = low_.write().string();
};

TEST_F(PlanCommand, WritesAPlanThatRunsCanRead) {
  const CallOutcome shown =
      call_sheaf({"plan", f32_, bf16_, "--slack", "1", "-o", output()});
  EXPECT_EQ(shown.code, 0) << shown.err;
  for (const char* part : {"all f32", "all bf16", "chosen", "conv2", "1 x GPU"})
    EXPECT_TRUE(has(shown.out, part)) << part << " in\n" << shown.out;
  EXPECT_FALSE(has(shown.out, "exchange of")) << shown.out;  // one worker
  const auto plan = plan::read_precision_plan(output());
  EXPECT_EQ(plan.of("conv2"), Precision::kBf16);
  EXPECT_GT(written()["predicted"]["step_ms"], 0);
  // The prediction of the plan by `sheaf predict`.
  const CallOutcome again = call_sheaf(
      {"predict", f32_, bf16_, "--plan", output(), "--format", "json"});
  EXPECT_EQ(again.code, 0) << again.err;
  const auto row = nlohmann::json::parse(again.out);
  EXPECT_NEAR(row["predicted_ms"], written()["predicted"]["step_ms"], 1e-6);
}

TEST_F(PlanCommand, ChoosesAndPredictsTheExchange) {
  const std::vector<std::string> cluster = {f32_, "--workers", "4",
                                            "--topology", "1x4"};
  const auto with = [&](std::vector<std::string> words,
                        const std::vector<std::string>& more) {
    words.insert(words.end(), cluster.begin(), cluster.end());
    words.insert(words.end(), more.begin(), more.end());
    return call_sheaf(words);
  };
  const auto row = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = more;
    words.insert(words.end(), {"--format", "json"});
    const CallOutcome shown = with({"predict"}, words);
    EXPECT_EQ(shown.code, 0) << shown.err;
    return nlohmann::json::parse(shown.out);
  };
  const CallOutcome shown = with({"plan"}, {"-o", output()});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, "exchange of 4 workers")) << shown.out;
  EXPECT_TRUE(has(shown.out, "(gradients)")) << shown.out;
  EXPECT_EQ(written()["exchange"]["default"], "gradients");
  // The plan's exchange is that of a prediction, unless another is specified.
  EXPECT_NEAR(row({"--plan", output()})["predicted_ms"],
              written()["predicted"]["step_ms"], 1e-6);
  const double all = row({"--exchange", "gradients"})["exchanged_mib"];
  EXPECT_NEAR(all, 4 * 501000 / 1048576.0, 1e-3);
  // Between hosts partial sums have 32 bits and results 16.
  EXPECT_NEAR(row({"--exchange", "half"})["exchanged_mib"], 0.75 * all, 1e-3);
  EXPECT_EQ(row({"--exchange", "dad"}),
            row({"--exchange", "gradients,fc=dad"}));
  const CallOutcome low = with({"predict"}, {"--exchange", "rank-dad:2"});
  EXPECT_TRUE(has(low.err, "estimated")) << low.err;
  const CallOutcome told =
      with({"plan"}, {"--exchange", "half,fc=dad", "-o", output()});
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_EQ(written()["exchange"]["default"], "half");
  EXPECT_EQ(written()["exchange"]["layers"]["fc"], "dad");
}

TEST_F(PlanCommand, PrintsTheGraph) {
  const CallOutcome dot =
      call_sheaf({"plan", "graph", f32_, "--format", "dot"});
  EXPECT_EQ(dot.code, 0) << dot.err;
  EXPECT_TRUE(has(dot.out, "digraph")) << dot.out;
  const CallOutcome json = call_sheaf({"plan", "graph", f32_});
  EXPECT_EQ(nlohmann::json::parse(json.out)["operators"].size(), 6u);
}

TEST_F(PlanCommand, ErrorsWriteNoFiles) {
  const auto is_reported = [&](std::vector<std::string> words,
                               const char* part) {
    words.insert(words.end(), {"-o", output()});
    const CallOutcome shown = call_sheaf(words);
    EXPECT_EQ(shown.code, 2) << part;
    EXPECT_TRUE(has(shown.err, part)) << shown.err;
    EXPECT_FALSE(std::filesystem::exists(output()));
  };
  is_reported({"plan"}, "pass the traces");
  is_reported({"plan", f32_, bf16_, "--memory", "1M"}, "no plan fits");
  is_reported({"plan", f32_, f32_}, "both traces in f32");
  is_reported({"plan", f32_, "--workers", "2,2"}, "of 1 devices");
  is_reported({"plan", f32_, "--workers", "0"},
              "--workers must be 1 or more, not 0");
  is_reported({"plan", f32_, "--workers", "4", "--topology", "2x3"}, "2x3");
  is_reported({"plan", f32_, "--fix", "conv1"}, "LAYER=PRECISION");
  is_reported({"plan", f32_, "--precisions", "f8"}, "unknown precision \"f8\"");
  is_reported({"plan", f32_, "--fix", "conv3=f32"}, "no layer 'conv3'");
  is_reported({"plan", f32_, "--exchange", "gradients,fcc=dad"},
              "did you mean 'fc'");
  is_reported({"plan", f32_, "--exchange", "dad", "--allow", "half"},
              "pass only one of them");
  is_reported({"plan", f32_, "--allow", "fc=dad"},
              "--allow takes exchange methods");
}

class PlanDevices : public PlanCommand {
 protected:
  std::string device(const char* name, const std::string& text) const {
    const auto path = folder_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  std::string traced_ = device("gpu.yaml",
                               "name: GPU\n"
                               "tflops: {f32: 60, bf16: 600, f16: 600}\n"
                               "memory_gbs: 4000\n");
  std::string fast_ = device("fast.yaml",
                             "name: fast\ntflops: {f32: 30, f16: 150}\n"
                             "memory_gbs: 2000\n");
  std::string slow_ = device("slow.yaml",
                             "name: slow\ntflops: {f32: 10, f16: 60}\n"
                             "memory_gbs: 500\nmemory: 23M\n");
};

// Two devices that were never traced, one of which has little memory.
TEST_F(PlanDevices, AreScaledAndSaidToBeSo) {
  const CallOutcome shown =
      call_sheaf({"plan", f32_, bf16_, "--devices", fast_ + "," + slow_,
                  "--traced-on", traced_, "--workers", "2,2", "-o", output()});
  ASSERT_EQ(shown.code, 0) << shown.err;
  for (const char* part : {"2 x fast (scaled from GPU by roofline)", "all f16",
                           "all f32 (does not fit)", "chose the plan in"})
    EXPECT_TRUE(has(shown.out, part)) << part << " in\n" << shown.out;
  const auto plan = written();
  EXPECT_EQ(plan["devices"][1]["scaled_from"], "GPU");
  EXPECT_LE(plan["predicted"]["step_ms"], plan["uniform"]["f16"]["step_ms"]);
  EXPECT_LT(plan["predicted"]["indicator"],
            plan["uniform"]["f16"]["indicator"]);
  EXPECT_LE(plan["predicted"]["kinds"][1]["peak_bytes"], 23 << 20);
  EXPECT_FALSE(plan["uniform"].contains("bf16"));
  EXPECT_EQ(plan::read_precision_plan(output(), "slow").of("conv2"),
            Precision::kF16);
  const CallOutcome predicted =
      call_sheaf({"predict", f32_, "--devices", slow_, "--traced-on", traced_});
  EXPECT_TRUE(has(predicted.out, "by roofline")) << predicted.out;
  EXPECT_TRUE(has(predicted.err, "not measured")) << predicted.err;
}

TEST_F(PlanDevices, MistakesInTheirFilesAreReported) {
  const auto is_reported = [&](const std::string& text, const char* part) {
    const std::string path = device("wrong.yaml", text);
    const CallOutcome shown =
        call_sheaf({"plan", f32_, "--devices", path, "--traced-on", traced_});
    EXPECT_EQ(shown.code, 2) << text;
    EXPECT_TRUE(has(shown.err, part)) << shown.err;
  };
  is_reported("name: x\ntflops: {f32: 1}\n", "the device has no memory_gbs");
  is_reported("name: x\nmemory_gbs: 1\n", "the device has no tflops");
  is_reported("name: x\ntflops: {f31: 1}\n", "unknown precision \"f31\"");
  is_reported("name: x\ntflops: {f32: -1}\n",
              "line 2: the value must be a number greater than 0");
  is_reported("name: x\nspeed: 1\n", "line 2: unknown key speed");
  is_reported("name: x\ntflops: {f16: 1}\nmemory_gbs: 1\n",
              "none of the precisions");
  const CallOutcome unknown = call_sheaf({"plan", f32_, "--devices", slow_});
  EXPECT_TRUE(has(unknown.err, "--traced-on")) << unknown.err;
  const CallOutcome alone = call_sheaf({"plan", f32_, "--traced-on", slow_});
  EXPECT_TRUE(has(alone.err, "needs --devices")) << alone.err;
}

TEST_F(PlanCommand, TracesOfTwoBatchesMakeALine) {
  auto model = plan::small_model();
  for (auto& one : model) one.us = 1.5 * one.us;  // twice the batch
  const ModelTrace large(model, plan::uniform(Precision::kF32), true, 10, 16);
  const CallOutcome shown = call_sheaf({"predict", f32_, large.write().string(),
                                        "--batch", "32", "--format", "json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  // Each further 8 samples add half of the time of the first 8.
  EXPECT_NEAR(nlohmann::json::parse(shown.out)["predicted_ms"],
              2.5e-3 * high_.step_us(), 0.1 * 2.5e-3 * high_.step_us());
}

// A trace of torch.profiler only, without layers, statistics and memory.
TEST_F(PlanCommand, TracesOfOthersHaveNoIndicator) {
  const CallOutcome shown =
      call_sheaf({"plan", high_.write_plain().string(), "-o", output()});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, "unknown")) << shown.out;
  EXPECT_TRUE(has(shown.err, "no statistics of layers")) << shown.err;
  EXPECT_TRUE(written()["predicted"]["indicator"].is_null());
}

TEST_F(PlanCommand, ComparesWithWhatAPlanTook) {
  std::ofstream(output())
      << R"({"precision": {"other": "f32", "layers": {"conv2": "bf16"}}})";
  const ModelTrace run(plan::small_model(), plan::read_precision_plan(output()),
                       false);
  const CallOutcome shown =
      call_sheaf({"plan", "compare", "--plan", output(), "--measured",
                  run.write().string(), f32_, bf16_, "--format", "json"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  const auto step =
      nlohmann::json::parse(shown.out.substr(0, shown.out.find('\n')));
  EXPECT_EQ(step["what"], "step");
  EXPECT_NEAR(step["measured"], run.step_us() * 1e-3, 1e-6);
  EXPECT_NEAR(step["error_percent"], 0, 2);
}

TEST_F(PlanCommand, PredictionsOfNothingAreReported) {
  for (const char* option : {"--compute", "--bandwidth", "--batch"})
    for (const char* number : {"0", "-3"})
      EXPECT_EQ(call_sheaf({"predict", f32_, option, number}).code, 2)
          << option << number;
  std::ofstream(output()) << R"({"precision": {"layers": {"conv3": "bf16"}}})";
  const CallOutcome shown =
      call_sheaf({"predict", f32_, bf16_, "--plan", output()});
  EXPECT_EQ(shown.code, 2);
  EXPECT_TRUE(has(shown.err, "no layer 'conv3'")) << shown.err;
}

TEST_F(PlanCommand, PredictsMoreWorkers) {
  const auto step_ms = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--format", "json"});
    const CallOutcome shown = call_sheaf(words);
    EXPECT_EQ(shown.code, 0) << shown.err;
    return nlohmann::json::parse(shown.out)["predicted_ms"].get<double>();
  };
  const double one = step_ms({"predict", f32_, "--precision", "f32"});
  const double many =
      step_ms({"predict", f32_, "--workers", "1024", "--topology", "8x128"});
  EXPECT_GT(many, one);
  EXPECT_NEAR(one, high_.step_us() * 1e-3, 0.02 * one);
  const double twice = step_ms({"predict", f32_, "--batch", "16"});
  EXPECT_NEAR(twice / one, 2, 0.2);
}

}  // namespace
}  // namespace sheaf::cli
