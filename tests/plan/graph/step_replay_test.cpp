#include "sheaf/plan/graph/step_replay.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/plan/graph/waiting_threads.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

std::vector<double> replayed_us(const TraceText& text) {
  const Trace trace = read_steps(text.write());
  Replay replay;
  std::vector<double> times;
  for (const StepTrace& step : trace.steps)
    times.push_back(
        1e-3 * static_cast<double>(replay.run(make_graph(step, trace.names))));
  return times;
}

TEST(Replay, RepeatsWhatThreadsComputed) {
  TraceText text;
  text.step(1, 0, 100);
  text.op("aten::a", 1, 10, 20);
  text.kernel(1, 15, 7, 23, 500);
  text.op("aten::b", 1, 40, 50);
  EXPECT_EQ(replayed_us(text), (std::vector<double>{100}));
}

TEST(Replay, WaitsForStreams) {
  TraceText text;
  text.step(1, 0, 600);
  text.op("aten::a", 1, 10, 20);
  text.kernel(1, 15, 7, 23, 500);
  text.add("cuda_runtime", "cudaStreamSynchronize", 1, 100, 425);
  EXPECT_NEAR(replayed_us(text)[0], 600, 10);
  // If a kernel takes half the time, the step is shorter by that amount.
  const Trace trace = read_steps(text.write());
  StepGraph graph = make_graph(trace.steps[0], trace.names);
  graph.kernels[0].ns /= 2;
  Replay replay;
  EXPECT_NEAR(1e-3 * static_cast<double>(replay.run(graph)), 350, 10);
}

// The reader once took the last of no kernels.
TEST(Replay, AWaitWithoutKernelsEndsAtOnce) {
  StepGraph graph;
  graph.threads.resize(1);
  graph.threads[0].push_back(
      {.kind = ThreadMark::Kind::kWaitAll, .cpu_ns = 70, .call_ns = 5});
  Replay replay;
  EXPECT_EQ(replay.run(graph), 75);
  EXPECT_EQ(replay.run(graph), 75);
}

// Four kernels of 100 ns on one stream, launched in no time: with two in
// flight, the third launch waits for the first kernel and the fourth for the
// second.
TEST(Replay, AFullQueueHoldsExactlyItsSize) {
  StepGraph graph;
  graph.has_device = true;
  graph.streams = 1;
  graph.threads.resize(1);
  for (std::int32_t i = 0; i < 4; ++i) {
    graph.kernels.push_back({.ns = 100});
    graph.threads[0].push_back(
        {.kind = ThreadMark::Kind::kLaunch, .kernel = i});
  }
  ReplayTimes times;
  Replay replay({.queue = 2});
  EXPECT_EQ(replay.run(graph, &times), 200);
  EXPECT_EQ(times.marks[0], (std::vector<std::int64_t>{0, 0, 100, 200}));
  EXPECT_EQ(replay.backlog_ns(), 200);
  EXPECT_EQ(Replay({.queue = 4}).run(graph), 0);
  EXPECT_EQ(Replay({.queue = 1}).run(graph), 300);
}

// A launch waits while 1022 kernels are in flight: the long calls in the trace
// are not the thread's own time.
TEST(Replay, LaunchesWaitForAFullQueue) {
  TraceText text;
  double cpu = 0, gpu = 10;
  std::vector<double> ends;
  for (int step = 0; step < 3; ++step) {
    const double begin = cpu;
    for (int i = 0; i < 800; ++i) {
      cpu += 5;
      double call = 5;
      const auto launched = ends.size();
      if (launched >= 1022)
        call = std::max(call, ends[launched - 1022] - cpu + 5);
      gpu = std::max(gpu, cpu + 8);
      text.kernel(1, cpu, 7, gpu, 49, call);
      ends.push_back(gpu += 49);
      gpu += 1;
      cpu += call;
    }
    text.step(step, begin, cpu + 5 - begin);
    cpu += 5;
  }
  const Trace trace = read_steps(text.write());
  std::vector<StepGraph> graphs;
  for (const auto& step : trace.steps)
    graphs.push_back(make_graph(step, trace.names));
  EXPECT_GT(graphs[2].measured_ns, 3 * graphs[0].measured_ns);
  for (std::size_t from = 0; from < 3; ++from) {
    Replay replay;
    for (std::size_t step = 0; step < 3; ++step)
      EXPECT_NEAR(static_cast<double>(replay.run(graphs[from])) /
                      static_cast<double>(graphs[step].measured_ns),
                  1, 0.02)
          << step << " from " << from;
  }
}

// The first thread is idle while another one works.
TEST(Replay, ThreadsWaitForEachOther) {
  TraceText text;
  add_waiting_threads(text);
  EXPECT_NEAR(replayed_us(text)[0], 1000, 1);
  const Trace trace = read_steps(text.write());
  StepGraph graph = make_graph(trace.steps[0], trace.names);
  for (ThreadMark& mark : graph.threads[1]) mark.cpu_ns /= 2;
  Replay replay;
  const double us = 1e-3 * static_cast<double>(replay.run(graph));
  EXPECT_LT(us, 900);
  EXPECT_GT(us, 600);
}

// A kernel after a wait for an event follows the other stream's kernel.
TEST(Replay, StreamsWaitForEachOther) {
  TraceText text;
  text.step(1, 0, 700);
  text.kernel(1, 10, 7, 20, 300);
  text.add("cuda_runtime", "cudaStreamWaitEvent", 1, 30, 2);
  text.kernel(1, 40, 40, 321, 200);
  text.add("cuda_runtime", "cudaDeviceSynchronize", 1, 60, 461);
  const Trace trace = read_steps(text.write());
  StepGraph graph = make_graph(trace.steps[0], trace.names);
  ASSERT_EQ(graph.kernels.size(), 2u);
  EXPECT_EQ(graph.kernels[1].after, (std::vector<std::int32_t>{0}));
  graph.kernels[0].ns *= 2;
  Replay replay;
  EXPECT_NEAR(1e-3 * static_cast<double>(replay.run(graph)), 1000, 20);
}

// A rank that computes for `us`, starts an all-reduce and waits for it.
StepGraph rank_that_computes(double us, double sum_us) {
  TraceText text;
  text.step(1, 0, us + sum_us + 60);
  text.op("aten::forward", 1, 0, us);
  text.add("cuda_runtime", "cudaLaunchKernel", 1, us, 5, "\"correlation\": 1");
  text.add("kernel", "ncclKernel_AllReduce", 40, us + 10, sum_us,
           "\"correlation\": 1, \"device\": 0, \"stream\": 40");
  text.add("cuda_runtime", "cudaDeviceSynchronize", 1, us + 6, sum_us + 4);
  text.op("aten::step", 1, us + sum_us + 20, 30);
  const Trace trace = read_steps(text.write());
  return make_graph(trace.steps[0], trace.names);
}

TEST(Replay, CollectivesWaitForTheLastRank) {
  // The fast rank was waiting in its trace.
  const StepGraph fast = rank_that_computes(100, 450);
  const StepGraph slow = rank_that_computes(500, 50);
  ASSERT_EQ(fast.collectives.size(), 1u);
  std::vector<Replay> ranks(3);
  const auto together = Replay::run_together(
      ranks, {&fast, &slow, &fast}, [](std::size_t) { return 50'000; });
  for (const std::int64_t ns : together.step_ns)
    EXPECT_NEAR(1e-3 * static_cast<double>(ns), 610, 12);
  EXPECT_NEAR(1e-3 * static_cast<double>(together.waits_ns[0]), 400, 1);
  EXPECT_EQ(together.waits_ns[1], 0);
  const StepGraph none;
  expect_throws<UsageError>(
      [&] {
        Replay::run_together(ranks, {&fast, &fast, &none},
                             [](std::size_t) { return 0; });
      },
      {"1 collectives", "another rank's 0", "one run"});
}

// Collectives executed by threads, as in Sheaf's traces: the first rank now
// computes longer, and the second one waits for it.
TEST(Replay, CollectivesOfThreadsWaitForTheLastRank) {
  const auto rank = [](double begin) {
    TraceText text;
    text.step(1, 0, 500);
    text.op("aten::a", 1, 10, begin - 20);
    text.add("collective", "all_reduce", 1, begin, 400 - begin,
             "\"Collective name\": \"all_reduce\", \"In msg nelems\": 8");
    text.op("aten::b", 1, 410, 80);
    const Trace trace = read_steps(text.write());
    return make_graph(trace.steps[0], trace.names);
  };
  StepGraph first = rank(390);
  const StepGraph second = rank(200);
  ASSERT_EQ(first.collectives.size(), 1u);
  EXPECT_EQ(first.collectives[0].elements, 8);
  EXPECT_FALSE(first.has_device);
  const auto step_us = [&] {
    std::vector<Replay> ranks(2);
    const auto together = Replay::run_together(
        ranks, {&first, &second}, [](std::size_t) { return 10'000; });
    EXPECT_EQ(together.step_ns[0], together.step_ns[1]);
    return 1e-3 * static_cast<double>(together.step_ns[0]);
  };
  EXPECT_NEAR(step_us(), 500, 1);
  first.threads[0][0].cpu_ns += 100'000;
  EXPECT_NEAR(step_us(), 600, 1);
}

}  // namespace
}  // namespace sheaf::plan
