#include "sheaf/tensor/record/recorder.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/tensor/record/kineto.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/tensor/record/traced_layer.hpp"

namespace sheaf::tensor {
namespace {

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

TEST_F(TracedLayer, SizesCanBeLeftOut) {
  Recorder recorder({.has_sizes = false});
  compute();
  recorder.stop();
  EXPECT_TRUE(recorder.threads()[0]->sizes.empty());
  EXPECT_EQ(event_named(*recorder.threads()[0], "aten::mm").detail, -1);
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
