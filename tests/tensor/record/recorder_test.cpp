#include "sheaf/tensor/record/recorder.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "sheaf/base/files.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/tensor/groups/scope.hpp"
#include "sheaf/tensor/record/kineto.hpp"
#include "sheaf/tensor/record/memory_watch.hpp"
#include "sheaf/tensor/record/trace_text.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::tensor {
namespace {

using Json = nlohmann::json;

// The index of the n-th event with the name; -1: not found.
int place_of(const RecordedThread& thread, const std::string& name, int n = 0) {
  for (std::size_t i = 0; i < thread.events.size(); ++i)
    if (thread.names[thread.events[i].name] == name && n-- == 0)
      return static_cast<int>(i);
  return -1;
}

const RecordedEvent& event_named(const RecordedThread& thread,
                                 const std::string& name) {
  const int place = place_of(thread, name);
  if (place < 0) throw std::runtime_error("no event " + name);
  return thread.events[static_cast<std::size_t>(place)];
}

class TracedLayer : public testing::Test {
 protected:
  // y = x w; only w and its gradient remain allocated afterwards.
  void compute() {
    const Scope scope("sheaf::phase forward");
    const at::Tensor x = torch::ones({4, 3});
    torch::mm(x, weight_).sum().backward();
  }
  Json written(const Recorder& recorder, const std::string& name = "a.json") {
    const auto path = folder_.path() / name;
    write_trace(path, recorder, {1, 2, "a \"CPU\""}, R"({"version": 1})");
    return Json::parse(read_file(path));
  }

  TemporaryFolder folder_;
  at::Tensor weight_ = torch::ones({3, 5}).requires_grad_();
};

TEST_F(TracedLayer, OperatorsNestAndHaveNumbers) {
  Recorder recorder;
  compute();
  recorder.stop();
  ASSERT_EQ(recorder.threads().size(), 1u);
  const RecordedThread& thread = *recorder.threads()[0];
  const auto& phase = event_named(thread, "sheaf::phase forward");
  const auto& product = event_named(thread, "aten::mm");
  const auto& backward = event_named(thread, "MmBackward0");
  EXPECT_EQ(phase.kind, EventKind::kScope);
  EXPECT_EQ(backward.kind, EventKind::kBackward);
  EXPECT_EQ(product.sequence, backward.sequence);
  EXPECT_GE(product.sequence, 0);
  EXPECT_LE(phase.begin_ns, product.begin_ns);
  EXPECT_LE(product.begin_ns, product.end_ns);
  EXPECT_LE(product.end_ns, backward.begin_ns);
  EXPECT_LE(backward.end_ns, phase.end_ns);
  const std::int64_t* sizes = thread.sizes.data() + product.detail;
  EXPECT_EQ(std::vector<std::int64_t>(sizes, sizes + 7),
            (std::vector<std::int64_t>{2, 2, 4, 3, 2, 3, 5}));
}

TEST_F(TracedLayer, TheFileIsInTheProfilersWords) {
  Recorder recorder;
  compute();
  recorder.stop();
  const Json trace = written(recorder);
  EXPECT_EQ(trace["distributedInfo"]["rank"], 1);
  EXPECT_EQ(trace["deviceProperties"][0]["name"], "a \"CPU\"");
  EXPECT_EQ(trace["sheaf"]["version"], 1);
  std::map<std::string, Json> by_name;
  for (const Json& event : trace["traceEvents"])
    by_name.try_emplace(event["name"], event);
  const Json& product = by_name.at("aten::mm");
  EXPECT_EQ(product["cat"], "cpu_op");
  EXPECT_EQ(product["args"]["Input Dims"], Json::parse("[[4, 3], [3, 5]]"));
  EXPECT_EQ(by_name.at("sheaf::phase forward")["cat"], "user_annotation");
  const Json& engine =
      by_name.at("autograd::engine::evaluate_function: MmBackward0");
  EXPECT_EQ(engine["cat"], "cpu_op");
  EXPECT_EQ(engine["args"]["Sequence number"],
            product["args"]["Sequence number"]);
  const Json& taking = by_name.at(
      "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad");
  EXPECT_FALSE(taking["args"].contains("Sequence number"));
}

TEST_F(TracedLayer, HooksBeforeANodeDoNotHideItsNumber) {
  const at::Tensor product = torch::mm(torch::ones({4, 3}), weight_);
  product.register_hook([](const at::Tensor& delta) { return delta * 2; });
  Recorder recorder;
  product.sum().backward();
  recorder.stop();
  const Json trace = written(recorder);
  for (const Json& event : trace["traceEvents"])
    if (event["name"] == "autograd::engine::evaluate_function: MmBackward0")
      EXPECT_TRUE(event["args"].contains("Sequence number"));
}

TEST_F(TracedLayer, PackedFilesHoldTheSame) {
  Recorder recorder;
  compute();
  recorder.stop();
  const Json plain = written(recorder);
  const auto packed = folder_.path() / "a.json.gz";
  write_trace(packed, recorder, {}, "");
  EXPECT_LT(std::filesystem::file_size(packed),
            std::filesystem::file_size(folder_.path() / "a.json") / 2);
  EXPECT_EQ(read_file(packed).substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"a.json", "a.json.gz"}));
  expect_throws<IoError>(
      [&] { write_trace(folder_.path() / "no" / "a.json", recorder, {}, ""); },
      {"no/a.json"});
}

TEST_F(TracedLayer, SizesCanBeLeftOut) {
  Recorder recorder({.has_sizes = false});
  compute();
  recorder.stop();
  EXPECT_TRUE(recorder.threads()[0]->sizes.empty());
  EXPECT_EQ(event_named(*recorder.threads()[0], "aten::mm").detail, -1);
}

TEST_F(TracedLayer, ListsOfTensorsHaveSizesToo) {
  Recorder recorder;
  torch::cat({torch::ones({2, 1}), torch::ones({3, 1})});
  recorder.stop();
  const Json trace = written(recorder);
  for (const Json& event : trace["traceEvents"])
    if (event["name"] == "aten::cat")
      EXPECT_EQ(event["args"]["Input Dims"],
                Json::parse("[[[2, 1], [3, 1]], []]"));
}

TEST_F(TracedLayer, NothingIsNotedBeforeAndAfter) {
  compute();
  Recorder recorder;
  recorder.stop();
  compute();
  EXPECT_TRUE(recorder.threads().empty());
  Recorder second;
  expect_throws<UsageError>([] { Recorder third; }, {"already"});
  compute();
  second.stop();
  EXPECT_GE(place_of(*second.threads()[0], "aten::mm"), 0);
  EXPECT_EQ(place_of(*second.threads()[0], "aten::mm", 3), -1);
}

TEST_F(TracedLayer, MemoryComesAndGoes) {
  const MemoryWatch watch;
  compute();
  weight_.mutable_grad().reset();
  Recorder recorder;
  const std::int64_t before = watch.allocated(at::kCPU);
  compute();
  weight_.mutable_grad().reset();
  recorder.stop();
  const auto& events = recorder.threads()[0]->allocations;
  ASSERT_FALSE(events.empty());
  std::int64_t bytes = 0;
  for (const RecordedAllocation& one : events) {
    bytes += one.bytes;
    EXPECT_EQ(one.total, before + bytes);
  }
  EXPECT_EQ(bytes, 0);
  EXPECT_EQ(watch.allocated(at::kCPU), before);
}

TEST_F(TracedLayer, PhasesHaveTheirPeaks) {
  MemoryWatch watch;
  const at::Tensor kept = torch::empty({1000});
  const PhasePeaks peaks(watch, at::kCPU);
  {
    const Scope phase("sheaf::phase forward");
    torch::empty({250000});
  }
  torch::empty({500000});
  {
    const Scope phase("sheaf::phase backward");
    torch::empty({100});
  }
  const std::int64_t base = peaks.before();
  EXPECT_GE(base, 4000);
  EXPECT_EQ(peaks.peaks().at("forward"), base + 1000000);
  EXPECT_EQ(peaks.peaks().at("backward"), base + 400);
}

// Other threads run operators all the time.
TEST_F(TracedLayer, RecordingsBeginAndEndBesideOtherThreads) {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i)
    others.emplace_back([&] {
      const at::Tensor a = torch::ones({2});
      while (!is_over) torch::add(a, a);
    });
  for (int i = 0; i < 50; ++i) {
    Recorder recorder;
    compute();
    recorder.stop();
    std::size_t whole = 0;
    for (const RecordedThread* thread : recorder.threads())
      whole += place_of(*thread, "aten::mm") >= 0;
    EXPECT_EQ(whole, 1u);
  }
  is_over = true;
  for (std::thread& one : others) one.join();
}

TEST_F(TracedLayer, CollectivesTellWhatTheyExchange) {
  Recorder recorder;
  comm::run_threads(2, [](const comm::Group& group) {
    std::vector<float> data(100);
    comm::all_reduce(group, data).wait();
  });
  recorder.stop();
  int found = 0;
  const Json trace = written(recorder);
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] != "all_reduce") continue;
    EXPECT_EQ(event["cat"], "collective");
    EXPECT_EQ(event["args"]["Collective name"], "all_reduce");
    EXPECT_EQ(event["args"]["In msg nelems"], 100);
    EXPECT_EQ(event["args"]["Bytes"], 400);
    EXPECT_EQ(event["args"]["dtype"], "f32");
    EXPECT_EQ(event["args"]["Group size"], 2);
    ++found;
  }
  EXPECT_EQ(found, 2);
}

// A trace in Kineto's format, with a different clock.
TEST_F(TracedLayer, WhatKinetoWroteGetsTheCollectives) {
  Recorder recorder({.has_operators = false});
  {
    const Scope step("ProfilerStep#7");
    comm::run_threads(1, [&](const comm::Group&) { compute(); });
    comm::run_threads(2, [](const comm::Group& group) {
      std::vector<float> data(3);
      comm::all_reduce(group, data).wait();
    });
  }
  recorder.stop();
  const auto given = folder_.path() / "given.json";
  std::ofstream(given) << R"({
  "schemaVersion": 1,
  "deviceProperties": [ { "id": 0, "name": "A GPU", "totalGlobalMem": 1 } ],
  "traceEvents": [
  { "ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#7", "ts": 1, "dur": 2 },
  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 7, "tid": 7,
    "ts": 1700000000000123.456, "dur": 5000.000
  }
  ],
  "traceName": "x" }
)";
  const KinetoTrace trace(given);
  EXPECT_EQ(trace.device_name(), "A GPU");
  trace.write(folder_.path() / "out.json", recorder, 1, 2, R"({"batch": 4})");
  const Json out = Json::parse(read_file(folder_.path() / "out.json"));
  EXPECT_EQ(out["sheaf"]["batch"], 4);
  EXPECT_EQ(out["distributedInfo"]["world_size"], 2);
  EXPECT_EQ(out["traceName"], "x");
  int found = 0;
  for (const Json& event : out["traceEvents"]) {
    if (event["cat"] != "collective" || event["name"] != "all_reduce") continue;
    ++found;
    EXPECT_GE(event["ts"].get<double>(), 1700000000000123.0);
    EXPECT_LE(event["ts"].get<double>(), 1700000060000000.0);
  }
  EXPECT_EQ(found, 2);
  std::ofstream(given) << "{}";
  expect_throws<IoError>([&] { KinetoTrace{given}; },
                         {"given.json", "traceEvents"});
}

}  // namespace
}  // namespace sheaf::tensor
