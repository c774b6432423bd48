#include "sheaf/plan/graph/measured_step.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/plan/graph/waiting_threads.hpp"
#include "tests/plan/trace/model_trace.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

// The measured end times of a step's marks, by thread, since its start.
std::vector<std::vector<std::int64_t>> measured_ends(const TraceText& text) {
  const Trace trace = read_steps(text.write());
  const StepTrace& step = trace.steps[0];
  ReplayTimes times = measured_times(make_graph(step, trace.names), step);
  EXPECT_EQ(times.step.begin_ns, step.span.begin_ns);
  EXPECT_EQ(times.step.end_ns, step.span.end_ns);
  for (auto& thread : times.marks)
    for (std::int64_t& ns : thread) ns -= step.span.begin_ns;
  return times.marks;
}
using Ends = std::vector<std::vector<std::int64_t>>;

// Launches and waits end when their calls did, not when a replay would end
// them.
TEST(MeasuredStep, MarksEndWithTheirCalls) {
  TraceText text;
  text.step(1, 0, 560);
  text.op("aten::a", 1, 10, 80);
  text.kernel(1, 15, 7, 23, 500, /*call=*/12);
  text.add("cuda_runtime", "cudaStreamSynchronize", 1, 100, 425);
  EXPECT_EQ(measured_ends(text), (Ends{{27'000, 525'000, 560'000}}));
}

TEST(MeasuredStep, ThreadsContinueAfterEachOther) {
  TraceText text;
  add_waiting_threads(text);
  EXPECT_EQ(measured_ends(text), (Ends{{200'000, 710'000, 910'000, 1'000'000},
                                       {0, 210'000, 305'000, 700'000}}));
}

TEST(MeasuredStep, ThreadsThatWaitForEachOtherAreAnError) {
  StepGraph graph;
  graph.threads = {{{.other_thread = 1, .other_mark = 0}},
                   {{.other_thread = 0, .other_mark = 0}}};
  StepTrace step;
  step.threads = {"1/1", "1/2"};
  expect_throws<UsageError>([&] { measured_times(graph, step); },
                            {"wait for each other in a cycle"});
}

TEST(MeasuredStep, KernelsHaveTheirSpansInLaunchOrder) {
  TraceText text;
  text.step(1, 0, 200);
  text.kernel(1, 10, 7, 90, 30);  // begins after the other
  text.kernel(1, 20, 40, 30, 50);
  const Trace trace = read_steps(text.write());
  const StepTrace& step = trace.steps[0];
  const ReplayTimes times = measured_times(make_graph(step, trace.names), step);
  ASSERT_EQ(times.kernels.size(), 2u);
  const std::int64_t begin = step.span.begin_ns;
  EXPECT_EQ(times.kernels[0].begin_ns - begin, 90'000);
  EXPECT_EQ(times.kernels[0].end_ns - begin, 120'000);
  EXPECT_EQ(times.kernels[1].begin_ns - begin, 30'000);
  EXPECT_EQ(times.kernels[1].end_ns - begin, 80'000);
}

// The middle one of three steps by duration, as for a profile.
TEST(MeasuredStep, OfATraceIsTheTypicalOne) {
  TraceText text;
  double now = 0;
  for (const double us : {300.0, 100.0, 200.0}) {
    text.step(static_cast<int>(us), now, us);
    text.op("aten::relu", 1, now + 10, us - 20);
    now += us;
  }
  const MeasuredStep measured = read_measured(text.write());
  EXPECT_EQ(measured.times.step.ns(), 200'000);
  EXPECT_EQ(measured.profile.step.measured_ns, 200'000);
  expect_throws<IoError>([&] { read_measured(text.folder() / "none"); },
                         {"none", "No such file"});
}

TEST(MeasuredStep, OfAModelIsCloseToItsReplay) {
  PrecisionPlan plan;
  plan.layers["conv2"] = Precision::kBf16;
  const ModelTrace trace(small_model(), plan, false);
  const MeasuredStep measured = read_measured(trace.write());
  EXPECT_NEAR(1e-3 * static_cast<double>(measured.times.step.ns()),
              trace.step_us(), 0.01);
  const StepGraph& graph = measured.profile.step;
  ASSERT_EQ(measured.times.kernels.size(), graph.kernels.size());
  for (std::size_t i = 0; i < graph.kernels.size(); ++i)
    EXPECT_EQ(measured.times.kernels[i].ns(), graph.kernels[i].ns) << i;
  for (std::size_t thread = 0; thread < graph.threads.size(); ++thread)
    ASSERT_EQ(measured.times.marks[thread].size(),
              graph.threads[thread].size());
  EXPECT_EQ(measured.times.marks[0].back(), measured.times.step.end_ns);
  // Each kernel starts after its launch, and is launched by its own mark.
  for (std::size_t thread = 0; thread < graph.threads.size(); ++thread)
    for (std::size_t i = 0; i < graph.threads[thread].size(); ++i)
      if (const auto kernel = graph.threads[thread][i].kernel; kernel != kNone)
        EXPECT_LE(
            measured.times.marks[thread][i] - 5000,
            measured.times.kernels[static_cast<std::size_t>(kernel)].begin_ns);
  // A replay with the trace's measured durations is close to the trace.
  Replay replay;
  ReplayTimes again;
  for (int i = 0; i < 3; ++i) replay.run(graph, &again);
  EXPECT_NEAR(static_cast<double>(again.step.ns()) /
                  static_cast<double>(measured.times.step.ns()),
              1, 0.02);
}

StepGraph with_collectives(std::vector<Span> spans) {
  StepGraph graph;
  for (const Span& span : spans)
    graph.collectives.push_back({"all_reduce", 8, span});
  return graph;
}

// The second rank's clock is 1000 ahead; it is late for the second collective.
TEST(Clocks, AreComparedByTheEndsOfCollectives) {
  const StepGraph first =
      with_collectives({{100, 200}, {300, 500}, {600, 650}});
  const StepGraph second =
      with_collectives({{1050, 1201}, {1450, 1500}, {1590, 1650}});
  EXPECT_EQ(clock_offsets({&first, &second}),
            (std::vector<std::int64_t>{0, 1000}));
  EXPECT_EQ(collective_ns({&first, &second}),
            (std::vector<std::int64_t>{101, 50, 50}));
  const StepGraph none;
  EXPECT_EQ(clock_offsets({&none, &none}), (std::vector<std::int64_t>{0, 0}));
}

}  // namespace
}  // namespace sheaf::plan
