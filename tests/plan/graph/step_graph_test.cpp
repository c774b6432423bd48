#include "sheaf/plan/graph/step_graph.hpp"

#include <gtest/gtest.h>

#include "tests/plan/graph/waiting_threads.hpp"

namespace sheaf::plan {
namespace {

using Kind = ThreadMark::Kind;

StepGraph graph_of(const TraceText& text) {
  const Trace trace = read_steps(text.write());
  return make_graph(trace.steps[0], trace.names);
}

// One member of all marks of a thread.
template <class Member>
std::vector<Member> all_of(const std::vector<ThreadMark>& marks,
                           Member ThreadMark::*member) {
  std::vector<Member> list;
  for (const ThreadMark& mark : marks) list.push_back(mark.*member);
  return list;
}
using Times = std::vector<std::int64_t>;

TEST(StepGraph, ThreadsHaveMarksAtLaunchesAndWaits) {
  TraceText text;
  text.step(1, 0, 560);
  text.op("aten::a", 1, 10, 80);
  text.kernel(1, 15, 7, 23, 500);
  text.add("cuda_runtime", "cudaMalloc", 1, 40, 10);  // counts as computation
  text.add("cuda_runtime", "cudaStreamSynchronize", 1, 100, 425);
  const StepGraph graph = graph_of(text);
  ASSERT_EQ(graph.threads.size(), 1u);
  const auto& marks = graph.threads[0];
  EXPECT_EQ(all_of(marks, &ThreadMark::kind),
            (std::vector<Kind>{Kind::kLaunch, Kind::kWaitAll, Kind::kPoint}));
  EXPECT_EQ(all_of(marks, &ThreadMark::cpu_ns),
            (Times{15'000, 80'000, 35'000}));
  // A wait's own time is short, however long it waits.
  EXPECT_EQ(all_of(marks, &ThreadMark::call_ns), (Times{5'000, 5'000, 0}));
  EXPECT_EQ(all_of(marks, &ThreadMark::kernel),
            (std::vector<std::int32_t>{0, kNone, kNone}));
  EXPECT_EQ(graph.measured_ns, 560'000);
  EXPECT_TRUE(graph.has_device);
  EXPECT_EQ(graph.streams, 1u);
  EXPECT_EQ(graph.stream_names, std::vector<std::string>{"0/7"});
  EXPECT_TRUE(graph.notes.empty());
}

TEST(StepGraph, CutsDivideThreadsIntoParts) {
  TraceText text;
  text.step(1, 0, 80);
  text.op("aten::a", 1, 10, 30);
  text.kernel(1, 20, 7, 30, 10);
  const Trace trace = read_steps(text.write());
  const StepTrace& step = trace.steps[0];
  const std::int64_t begin = step.span.begin_ns;
  const StepGraph graph =
      make_graph(step, trace.names,
                 {{0, begin + 10'000, /*part=*/4}, {0, begin + 40'000, kNone}});
  const auto& marks = graph.threads[0];
  EXPECT_EQ(all_of(marks, &ThreadMark::part),
            (std::vector<std::int32_t>{kNone, 4, 4, kNone}));
  EXPECT_EQ(all_of(marks, &ThreadMark::cpu_ns),
            (Times{10'000, 10'000, 15'000, 40'000}));
}

// A kernel that finds its stream busy begins a gap after the one before; the
// others begin a latency after their launch. What a kernel does not show is the
// median of the others.
TEST(StepGraph, KernelsHaveGapsAndLatencies) {
  TraceText text;
  text.step(1, 0, 300);
  text.kernel(1, 10, 7, 18, 100);   // latency 8
  text.kernel(1, 20, 7, 120, 30);   // gap 2
  text.kernel(1, 200, 7, 206, 10);  // latency 6
  text.kernel(1, 210, 7, 246, 10);  // 30 after the one before: no gap
  const StepGraph graph = graph_of(text);
  Times times, gaps, latencies;
  for (const KernelTask& task : graph.kernels) {
    times.push_back(task.ns);
    gaps.push_back(task.gap_ns);
    latencies.push_back(task.latency_ns);
  }
  EXPECT_EQ(times, (Times{100'000, 30'000, 10'000, 10'000}));
  EXPECT_EQ(gaps, (Times{2'000, 2'000, 2'000, 2'000}));
  EXPECT_EQ(latencies, (Times{8'000, 7'000, 6'000, 7'000}));
}

TEST(StepGraph, KernelsWithoutOthersHaveTypicalGaps) {
  TraceText text;
  text.step(1, 0, 100);
  text.kernel(1, 10, 7, 18, 20);
  EXPECT_EQ(graph_of(text).kernels[0].gap_ns, 1000);
}

// Calls of one thread, each 10 us after the end of the one before.
StepTrace calls_with_queues(Names& names,
                            const std::vector<TracedCall>& calls) {
  names.number_of("");
  StepTrace step;
  step.threads = {"7/1"};
  step.streams = {"0/7"};
  std::int64_t now = 0;
  for (TracedCall call : calls) {
    const std::int64_t ns = call.span.ns();
    call.span = {now, now + ns};
    call.correlation = static_cast<std::int64_t>(step.calls.size());
    step.calls.push_back(call);
    step.kernels.push_back(
        {.span = {now, now + 1000}, .correlation = call.correlation});
    now += ns + 10'000;
  }
  step.span = {0, now};
  return step;
}

// A call that found 1000 kernels in the queue may have waited: its own time is
// that of the others of its name.
TEST(StepGraph, CallsThatFindAFullQueueTakeTheTypicalTime) {
  Names names;
  names.number_of("");
  const std::uint32_t launch = names.number_of("cudaLaunchKernel");
  const std::uint32_t copy = names.number_of("cudaMemcpyAsync");
  const StepTrace step = calls_with_queues(
      names, {{.span = {0, 5'000}, .name = launch},
              {.span = {0, 7'000}, .name = launch, .queued = 999},
              {.span = {0, 400'000}, .name = launch, .queued = 1000},
              {.span = {0, 3'000}, .name = launch, .queued = 1000},
              {.span = {0, 100'000}, .name = copy, .queued = 1000}});
  const StepGraph graph = make_graph(step, names);
  EXPECT_EQ(all_of(graph.threads[0], &ThreadMark::call_ns),
            (Times{5'000, 7'000, 6'000, 3'000, 5'000, 0}));
}

TEST(StepGraph, KernelsThatShareALaunchAreNoted) {
  Names names;
  StepTrace step = calls_with_queues(names, {{.span = {0, 5'000}}});
  step.kernels.push_back(step.kernels[0]);
  const StepGraph graph = make_graph(step, names);
  EXPECT_EQ(graph.kernels.size(), 1u);
  EXPECT_EQ(
      graph.notes,
      std::vector<std::string>{
          "1 kernels share a launch with another kernel and are ignored"});
}

// Until the second thread has ended; after 910 us nothing else happens.
TEST(StepGraph, IdleThreadsWaitForOthers) {
  TraceText text;
  add_waiting_threads(text);
  const StepGraph graph = graph_of(text);
  ASSERT_EQ(graph.threads.size(), 2u);
  EXPECT_EQ(all_of(graph.threads[0], &ThreadMark::cpu_ns),
            (Times{200'000, 0, 200'000, 90'000}));
  EXPECT_EQ(all_of(graph.threads[0], &ThreadMark::other_thread),
            (std::vector<std::int32_t>{kNone, 1, kNone, kNone}));
  const ThreadMark& woken = graph.threads[0][1];
  EXPECT_EQ(woken.other_mark, 3);
  EXPECT_EQ(woken.delay_ns, 10'000);
  EXPECT_EQ(all_of(graph.threads[1], &ThreadMark::cpu_ns),
            (Times{0, 0, 90'000, 395'000}));
  const ThreadMark& begun = graph.threads[1][1];
  EXPECT_EQ(begun.other_thread, 0);
  EXPECT_EQ(begun.other_mark, 0);
  EXPECT_EQ(begun.delay_ns, 10'000);
}

// A wait for an event holds up the next kernel of the thread, until the last
// kernels of the other streams.
TEST(StepGraph, AnEventOrdersStreams) {
  TraceText text;
  text.step(1, 0, 200);
  text.kernel(1, 10, 7, 20, 10);
  text.add("cuda_runtime", "cudaStreamWaitEvent", 1, 20, 2);
  text.kernel(1, 30, 40, 40, 10);
  text.kernel(1, 50, 40, 60, 10);
  text.add("cuda_runtime", "cudaStreamWaitEvent", 1, 60, 2);
  text.kernel(1, 70, 40, 80, 10);
  const StepGraph graph = graph_of(text);
  ASSERT_EQ(graph.kernels.size(), 4u);
  using After = std::vector<std::int32_t>;
  EXPECT_EQ(graph.kernels[0].after, After{});
  EXPECT_EQ(graph.kernels[1].after, After{0});
  EXPECT_EQ(graph.kernels[2].after, After{});
  EXPECT_EQ(graph.kernels[3].after, After{0});
}

void add_named_kernel(TraceText& text, const std::string& name, int number,
                      const std::string& arguments = "") {
  const double begin = 20.0 * number;
  text.add("cuda_runtime", "cudaLaunchKernel", 1, begin, 5,
           concat("\"correlation\": ", number));
  text.add("kernel", name, 7, begin + 8, 5,
           concat("\"device\": 0, \"stream\": 7, \"correlation\": ", number,
                  arguments));
}

TEST(StepGraph, CollectivesAreNumberedInLaunchOrder) {
  TraceText text;
  text.step(1, 0, 200);
  add_named_kernel(text, "k", 1);
  add_named_kernel(text, "ncclDevKernel_AllReduce", 2);
  add_named_kernel(
      text, "ours", 3,
      ", \"Collective name\": \"allgather\", \"In msg nelems\": 12");
  const StepGraph graph = graph_of(text);
  ASSERT_EQ(graph.kernels.size(), 3u);
  EXPECT_EQ(graph.kernels[0].collective, kNone);
  EXPECT_EQ(graph.kernels[1].collective, 0);
  EXPECT_EQ(graph.kernels[2].collective, 1);
  ASSERT_EQ(graph.collectives.size(), 2u);
  EXPECT_EQ(graph.collectives[0].name, "ncclDevKernel_AllReduce");
  EXPECT_EQ(graph.collectives[0].elements, -1);
  EXPECT_EQ(graph.collectives[1].name, "allgather");
  EXPECT_EQ(graph.collectives[1].elements, 12);
  EXPECT_EQ(graph.collectives[1].span.ns(), 5'000);
}

// A collective of a thread is launched and awaited at once.
TEST(StepGraph, CollectivesOfThreadsNeedNoDevice) {
  TraceText text;
  text.step(1, 0, 100);
  text.add("collective", "all_reduce", 1, 20, 40,
           "\"Collective name\": \"all_reduce\", \"In msg nelems\": 8");
  const StepGraph graph = graph_of(text);
  EXPECT_FALSE(graph.has_device);
  const auto& marks = graph.threads[0];
  EXPECT_EQ(all_of(marks, &ThreadMark::kind),
            (std::vector<Kind>{Kind::kLaunch, Kind::kWaitAll, Kind::kPoint}));
  EXPECT_EQ(all_of(marks, &ThreadMark::call_ns), (Times{0, 0, 0}));
  EXPECT_EQ(all_of(marks, &ThreadMark::cpu_ns), (Times{20'000, 0, 40'000}));
  ASSERT_EQ(graph.kernels.size(), 1u);
  EXPECT_EQ(graph.kernels[0].ns, 40'000);
  EXPECT_EQ(graph.kernels[0].gap_ns, 0);
  EXPECT_EQ(graph.kernels[0].latency_ns, 0);
}

TEST(StepGraph, ProductsAreKnownByTheirNames) {
  TraceText text;
  text.step(1, 0, 200);
  const std::vector<std::string> products = {
      "ampere_sgemm_128x64", "gemv2T", "nvjet_tst",         "cudnn_fprop",
      "cudnn_dgrad",         "wgrad",  "implicit_convolve", "fmha_fwd"};
  int number = 0;
  for (const std::string& name : products)
    add_named_kernel(text, name, number++);
  add_named_kernel(text, "elementwise_kernel", number);
  const StepGraph graph = graph_of(text);
  ASSERT_EQ(graph.kernels.size(), products.size() + 1);
  for (std::size_t i = 0; i < products.size(); ++i)
    EXPECT_TRUE(graph.kernels[i].is_product) << products[i];
  EXPECT_FALSE(graph.kernels.back().is_product);
}

TEST(StepGraph, WorkIsOnTheDeviceIfThereIsOne) {
  StepGraph graph;
  graph.kernels = {{.ns = 700}, {.ns = 900, .collective = 0}};
  ThreadMark mark;
  mark.cpu_ns = 30;
  mark.call_ns = 5;
  EXPECT_EQ(work_ns(graph, mark), 35);
  graph.has_device = true;
  EXPECT_EQ(work_ns(graph, mark), 0);
  mark.kernel = 0;
  EXPECT_EQ(work_ns(graph, mark), 700);
  mark.kernel = 1;
  EXPECT_EQ(work_ns(graph, mark), 0);
}

}  // namespace
}  // namespace sheaf::plan
