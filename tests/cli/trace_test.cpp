#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sheaf/plan/graph/operator_map.hpp"
#include "sheaf/plan/graph/step_replay.hpp"
#include "tests/cli/run_sheaf.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using TraceWords = std::vector<std::string>;

const char* const kTracedRun = R"(
data:
  name: synthetic
  arguments: {examples: 40, test_examples: 4, classes: 3, shape: [1, 28, 28]}
network: NETWORK
optimizer: {name: adam, learning_rate: 0.01}
clip_norm: 1
global_batch: 8
threads: 1
)";

class TraceCommand : public RunSheaf {
 protected:
  void SetUp() override {
    RunSheaf::SetUp();
    ::unsetenv("SHEAF_MPIEXEC");  // the one that the ranks are linked to
    if (!fs::exists(fs::path(sheaf_program()).parent_path() / "sheaf-torch"))
      GTEST_SKIP() << "built without libtorch";
    describe("mlp.yaml", "{name: mlp, arguments: {sizes: [784, 20, 3]}}");
    describe("lenet.yaml", "{name: lenet, arguments: {classes: 3}}");
  }
  void describe(const std::string& name, const std::string& network) const {
    std::string text = kTracedRun;
    text.replace(text.find("NETWORK"), 7, network);
    write_file(file(name), text);
  }
  RunResult record(const std::string& config, const std::string& output,
                   const TraceWords& more = {}) {
    TraceWords words{"trace",    file(config), "-o",      file(output),
                     "--warmup", "1",          "--steps", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  Json trace_in(const std::string& name) const {
    return Json::parse(read_file(file(name)));
  }

  // Events with a duration, sorted by start; the longer one first.
  static std::vector<Json> spans_of(const Json& trace) {
    std::vector<Json> spans;
    for (const Json& event : trace["traceEvents"])
      if (event["ph"] == "X") spans.push_back(event);
    std::stable_sort(
        spans.begin(), spans.end(), [](const Json& a, const Json& b) {
          return begin_of(a) != begin_of(b) ? begin_of(a) < begin_of(b)
                                            : end_of(a) > end_of(b);
        });
    return spans;
  }
  static double begin_of(const Json& event) { return event["ts"]; }
  static double end_of(const Json& event) {
    return event["ts"].get<double>() + event["dur"].get<double>();
  }

  // The outermost operators of forward and loss on the step's own thread.
  static TraceWords operators_of(const Json& trace, const std::string& step) {
    TraceWords names;
    Json thread;
    double until = 0, busy_until = 0, step_end = 0;
    for (const Json& span : spans_of(trace)) {
      if (span["name"] == step) step_end = end_of(span), thread = span["tid"];
      if (begin_of(span) >= step_end || span["tid"] != thread) continue;
      if (span["name"] == "sheaf::phase forward" ||
          span["name"] == "sheaf::phase loss")
        until = end_of(span);
      if (span["cat"] != "cpu_op" || begin_of(span) < busy_until) continue;
      busy_until = end_of(span);
      if (begin_of(span) < until) names.push_back(span["name"]);
    }
    return names;
  }
};

void expect_understood(const plan::Trace& trace) {
  plan::Replay replay;
  for (const plan::StepTrace& step : trace.steps) {
    const plan::OperatorMap map = plan::map_operators(step, trace.names);
    EXPECT_GT(map.backward, 5u);
    EXPECT_GT(map.accumulated, 3u);
    for (const auto& one : map.unmatched) ADD_FAILURE() << one.reason;
    const auto graph = plan::make_graph(step, trace.names);
    const auto measured = static_cast<double>(graph.measured_ns);
    EXPECT_NEAR(static_cast<double>(replay.run(graph)), measured,
                measured / 10);
  }
}

TEST_P(TraceCommand, OfANetworkIsUnderstood) {
  for (const char* network : {"mlp", "lenet"}) {
    const std::string name = std::string(network) + ".json.gz";
    const RunResult result = record(std::string(network) + ".yaml", name);
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    const plan::Trace trace = plan::read_steps(file(name));
    ASSERT_EQ(trace.steps.size(), 2u);
    EXPECT_EQ(trace.steps[0].label, "ProfilerStep#1");
    EXPECT_EQ(trace.header.world_size, 1);
    expect_understood(trace);
  }
}

TEST_P(TraceCommand, RecordsTheOperatorGraph) {
  ASSERT_EQ(record("lenet.yaml", "a.json").code, 0);
  const Json trace = trace_in("a.json");
  const Json& told = trace["sheaf"];
  EXPECT_EQ(told["model"], "lenet");
  EXPECT_EQ(told["batch"], 8);
  TraceWords nodes, layers;
  for (const Json& node : told["nodes"]) {
    nodes.push_back(node["op"]);
    EXPECT_EQ(node["inputs"].size(), node["in"].size());
    for (const int input : node["inputs"])
      EXPECT_LT(input, static_cast<int>(nodes.size()) - 1);
    if (node["layer"] != "") layers.push_back(node["layer"]);
  }
  EXPECT_GT(nodes.size(), 10u);
  EXPECT_EQ(nodes, operators_of(trace, "ProfilerStep#1"));
  EXPECT_EQ(nodes, operators_of(trace, "ProfilerStep#2"));
  EXPECT_EQ(layers.size(), told["layers"].size());
  for (const Json& parameter : told["parameters"])
    EXPECT_TRUE(told["layers"].contains(parameter["layer"])) << parameter;
  for (const auto& [name, layer] : told["layers"].items())
    for (const char* of :
         {"input", "weight", "weight_gradient", "output_gradient"}) {
      const Json& one = layer["statistics"][of];
      EXPECT_GT(one["square"], 0) << name << " " << of;
      EXPECT_GE(one["square"].get<double>() * 1.0001,
                one["largest"].get<double>() * one["largest"].get<double>());
      EXPECT_LE(one["square"].get<double>(), 1.0001 *
                                                 one["elements"].get<double>() *
                                                 one["largest"].get<double>() *
                                                 one["largest"].get<double>());
    }
}

TEST_P(TraceCommand, MemoryReturnsToWhatItWas) {
  ASSERT_EQ(record("mlp.yaml", "a.json").code, 0);
  const Json trace = trace_in("a.json");
  std::int64_t elements = 0;
  for (const Json& parameter : trace["sheaf"]["parameters"])
    elements += parameter["elements"].get<std::int64_t>();
  for (const Json& step : spans_of(trace)) {
    if (!step["name"].get<std::string>().starts_with("ProfilerStep")) continue;
    std::int64_t bytes = 0;
    int count = 0;
    for (const Json& event : trace["traceEvents"]) {
      if (event["name"] != "[memory]" || begin_of(event) < begin_of(step) ||
          begin_of(event) > end_of(step))
        continue;
      bytes += event["args"]["Bytes"].get<std::int64_t>();
      ++count;
    }
    EXPECT_EQ(bytes, 0);
    EXPECT_GT(count, 20);
  }
  // Weights, gradients, and Adam's two moments.
  const Json& memory = trace["sheaf"]["memory"];
  EXPECT_GE(memory["before"], 4 * 4 * elements);
  EXPECT_LE(memory["before"], 4 * 4 * elements + 4096);
  EXPECT_GT(memory["peak"]["backward"], memory["before"]);
  EXPECT_GE(trace["sheaf"]["optimizer"]["state_bytes"], 2 * 4 * elements);
}

TEST_P(TraceCommand, RanksTellTheirExchanges) {
  const RunResult result = record("mlp.yaml", "a.json", {"-n", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = concat("a.rank", rank, ".json");
    expect_understood(plan::read_steps(file(name)));
    const Json trace = trace_in(name);
    EXPECT_EQ(trace["distributedInfo"]["rank"], rank);
    EXPECT_EQ(trace["sheaf"]["batch"], 4);
    std::int64_t bytes = 0, elements = 0;
    for (const Json& event : spans_of(trace)) {
      if (event["cat"] != "collective") continue;
      EXPECT_EQ(event["args"]["Group size"], 2);
      if (event["name"] == "all_reduce" && event["args"]["dtype"] == "f32")
        bytes += event["args"]["Bytes"].get<std::int64_t>();
    }
    for (const Json& parameter : trace["sheaf"]["parameters"])
      elements += parameter["elements"].get<std::int64_t>();
    // All gradients in each of two steps; buckets may be rounded up.
    EXPECT_GE(bytes, 2 * 4 * elements);
    EXPECT_LE(bytes, 2 * 4 * elements + 1024);
  }
  EXPECT_FALSE(fs::exists(file("a.json")));
}

TEST_P(TraceCommand, LayersInAnotherPrecisionHaveCasts) {
  const RunResult result =
      record("mlp.yaml", "a.json", {"--precision", "bf16"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json trace = trace_in("a.json");
  EXPECT_EQ(trace["sheaf"]["precision"], "bf16");
  TraceWords nodes;
  int low = 0;
  for (const Json& node : trace["sheaf"]["nodes"]) {
    nodes.push_back(node["op"]);
    low += node["op"] == "aten::addmm" && node["type"] == "bf16";
  }
  EXPECT_EQ(low, 2);
  EXPECT_GE(std::count(nodes.begin(), nodes.end(), "aten::to"), 6);
  EXPECT_EQ(nodes, operators_of(trace, "ProfilerStep#2"));
  expect_understood(plan::read_steps(file("a.json")));
  write_file(file("plan.json"),
             R"({"version": 1, "precision": {"layers": {"0": "bf16"}}})");
  ASSERT_EQ(record("mlp.yaml", "b.json", {"--plan", file("plan.json")}).code,
            0);
  EXPECT_EQ(trace_in("b.json")["sheaf"]["precision"], "plan");
}

TEST_P(TraceCommand, RecordsTheCurvatureForPlans) {
  ASSERT_EQ(record("lenet.yaml", "bf16.json", {"--precision", "bf16"}).code, 0);
  ASSERT_EQ(record("lenet.yaml", "plain.json").code, 0);
  const RunResult result =
      record("lenet.yaml", "f32.json", {"--curvature", "20"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Json trace = trace_in("f32.json");
  for (const auto& [name, layer] : trace["sheaf"]["layers"].items()) {
    EXPECT_NE(layer["statistics"]["curvature"], 0) << name;
    EXPECT_GT(layer["statistics"]["curvature_error"], 0) << name;
  }
  EXPECT_EQ(operators_of(trace, "ProfilerStep#2"),
            operators_of(trace_in("plain.json"), "ProfilerStep#2"));
  EXPECT_EQ(trace["sheaf"]["memory"],
            trace_in("plain.json")["sheaf"]["memory"]);
  const auto plan_with = [&](const char* name) {
    return run({"plan", file(name), file("bf16.json"), "--indicator", "hessian",
                "-o", file("plan.json")});
  };
  const RunResult planned = plan_with("f32.json");
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_TRUE(fs::exists(file("plan.json")));
  const RunResult refused = plan_with("plain.json");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--curvature"), std::string::npos) << refused.err;
}

TEST_P(TraceCommand, UsageErrorsAreReported) {
  const auto code_of = [&](const std::string& output, TraceWords more) {
    more.insert(more.end(), {"-n", "1"});
    return record("mlp.yaml", output, more).code;
  };
  const RunResult result = record("mlp.yaml", "a.txt", {"-n", "1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find(".json.gz"), std::string::npos) << result.err;
  EXPECT_EQ(code_of("a.json", {"--set", "epoch=1"}), 2);
  EXPECT_EQ(code_of("a.json", {"--precision", "f33"}), 2);
  EXPECT_EQ(code_of("a.json", {"--precision", "bf16", "--plan", "x"}), 2);
  EXPECT_EQ(code_of("a.json", {"--steps", "0"}), 2);
  EXPECT_EQ(code_of("a.json", {"--curvature", "-1"}), 2);
  EXPECT_EQ(code_of("a.json", {"--curvature", "1", "--set", "precision=bf16"}),
            2);
  EXPECT_NE(code_of("none/a.json", {}), 0);
  EXPECT_FALSE(fs::exists(file("a.json")));
}

INSTANTIATE_TEST_SUITE_P(Mpi, TraceCommand, testing::Values("mpirun"),
                         mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
