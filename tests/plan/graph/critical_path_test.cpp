#include "sheaf/plan/graph/critical_path.hpp"

#include <gtest/gtest.h>

#include <random>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

ThreadMark compute(std::int64_t ns) {
  ThreadMark mark;
  mark.cpu_ns = ns;
  return mark;
}
ThreadMark launch(std::int32_t kernel, std::int64_t cpu_ns = 0) {
  ThreadMark mark = compute(cpu_ns);
  mark.kind = ThreadMark::Kind::kLaunch;
  mark.call_ns = 5;
  mark.kernel = kernel;
  return mark;
}
ThreadMark wait_all() {
  ThreadMark mark;
  mark.kind = ThreadMark::Kind::kWaitAll;
  mark.call_ns = 2;
  return mark;
}
ThreadMark after_thread(std::int32_t thread, std::int32_t mark_number) {
  ThreadMark mark;
  mark.other_thread = thread;
  mark.other_mark = mark_number;
  mark.delay_ns = 3;
  return mark;
}
KernelTask kernel(std::int64_t ns, std::uint32_t stream = 0) {
  KernelTask task;
  task.ns = ns;
  task.gap_ns = 1;
  task.latency_ns = 4;
  task.stream = stream;
  return task;
}
KernelTask collective(std::int32_t number, std::uint32_t stream = 0) {
  KernelTask task = kernel(0, stream);
  task.collective = number;
  return task;
}
StepGraph graph(std::vector<std::vector<ThreadMark>> threads,
                std::vector<KernelTask> kernels = {}, std::size_t streams = 1) {
  StepGraph step;
  step.threads = std::move(threads);
  step.kernels = std::move(kernels);
  step.streams = streams;
  for (const KernelTask& task : step.kernels)
    if (task.collective != kNone) step.collectives.emplace_back();
  return step;
}

// "m0.1" is the second mark of the first thread, "k2" the third kernel;
// prefixed with the rank if there are several.
std::string text_of(const std::vector<PathPiece>& path, bool with_ranks) {
  std::string text;
  for (const PathPiece& one : path) {
    if (!text.empty()) text += ' ';
    if (with_ranks) text += concat(one.rank, ":");
    if (one.is_step_before) text += '-';
    if (one.kernel != kNone)
      text += concat("k", one.kernel);
    else if (one.mark != kNone)
      text += concat("m", one.thread, ".", one.mark);
  }
  return text;
}

struct Walked {
  std::vector<PathPiece> path;
  std::int64_t ns = 0;
  std::string text;
};

// Walks the last of `count` steps. Pieces must fill it without gaps.
Walked walk(const std::vector<const StepGraph*>& steps, int count = 1,
            ReplayOptions options = {}) {
  std::vector<Replay> ranks(steps.size(), Replay(options));
  std::vector<ReplayTimes> times;
  Replay::Together together;
  for (int i = 0; i < count; ++i)
    together = Replay::run_together(
        ranks, steps, [](std::size_t) { return std::int64_t{50}; }, &times);
  Walked walked{critical_path(steps, times), 0, ""};
  for (const std::int64_t ns : together.step_ns)
    walked.ns = std::max(walked.ns, ns);
  std::int64_t now = walked.path.front().span.begin_ns;
  std::int64_t sum = 0;
  for (const PathPiece& one : walked.path) {
    EXPECT_EQ(one.span.begin_ns, now);
    now = one.span.end_ns;
    sum += one.span.ns();
  }
  EXPECT_EQ(sum, walked.ns);
  walked.text = text_of(walked.path, steps.size() > 1);
  return walked;
}

std::vector<Cause> causes_of(const Walked& walked) {
  std::vector<Cause> list;
  for (const PathPiece& one : walked.path) list.push_back(one.cause);
  return list;
}

TEST(CriticalPath, IsTheDeviceWhereItIsSlow) {
  const StepGraph step =
      graph({{launch(0, 10), launch(1), launch(2), wait_all(), compute(7)}},
            {kernel(100), kernel(200), kernel(50)});
  const Walked walked = walk({&step});
  EXPECT_EQ(walked.ns, 10 + 4 + 100 + 1 + 200 + 1 + 50 + 2 + 7);
  EXPECT_EQ(walked.text, "m0.0 k0 k1 k2 m0.3 m0.4");
  EXPECT_EQ(causes_of(walked),
            (std::vector{Cause::kStep, Cause::kLaunch, Cause::kStream,
                         Cause::kStream, Cause::kDevice, Cause::kThread}));
  EXPECT_EQ(walked.path[1].span.ns(), 104);  // including launch latency
  EXPECT_EQ(walked.path[2].span.ns(), 201);  // including the gap
}

TEST(CriticalPath, IsTheThreadWhereLaunchesTakeLonger) {
  const StepGraph step =
      graph({{launch(0, 300), launch(1, 400), compute(90), wait_all()}},
            {kernel(10), kernel(20)});
  const Walked walked = walk({&step});
  EXPECT_EQ(walked.text, "m0.0 m0.1 m0.2 m0.3");
  EXPECT_EQ(walked.ns, 305 + 405 + 90 + 2);
}

TEST(CriticalPath, GoesThroughOtherStreams) {
  KernelTask last = kernel(30);
  last.after = {1};
  const StepGraph step =
      graph({{launch(0), launch(1), launch(2), wait_all()}},
            {kernel(20), kernel(500, 1), last}, /*streams=*/2);
  const Walked walked = walk({&step});
  EXPECT_EQ(walked.text, "m0.0 k1 k2 m0.3");
  EXPECT_EQ(walked.path[2].cause, Cause::kOtherStream);
}

// The first thread waits for the second, which started after its first mark.
TEST(CriticalPath, GoesThroughOtherThreads) {
  const StepGraph step = graph({{compute(40), after_thread(1, 1), compute(5)},
                                {after_thread(0, 0), compute(600)}});
  const Walked walked = walk({&step});
  EXPECT_EQ(walked.text, "m0.0 m1.0 m1.1 m0.1 m0.2");
  EXPECT_EQ(walked.path[3].cause, Cause::kOtherThread);
  EXPECT_EQ(walked.ns, 40 + 3 + 600 + 3 + 5);
}

TEST(CriticalPath, GoesToTheRankThatIsLateForACollective) {
  const auto step_with = [](std::int64_t ns) {
    return graph({{launch(0, 10), launch(1), wait_all()}},
                 {kernel(ns), collective(0)});
  };
  const StepGraph fast = step_with(100), slow = step_with(900);
  EXPECT_EQ(walk({&slow, &fast}).text, "0:m0.0 0:k0 0:k1 0:m0.2");
  // The fast rank has more work afterwards, so it ends last.
  StepGraph busy = fast;
  busy.threads[0].push_back(compute(500));
  const Walked walked = walk({&busy, &slow});
  EXPECT_EQ(walked.text, "1:m0.0 1:k0 0:k1 0:m0.2 0:m0.3");
  EXPECT_EQ(walked.path[2].cause, Cause::kOtherRank);
  EXPECT_EQ(walked.path[2].span.ns(), 51);
}

// The thread never waits for the device, but launches wait for room in the
// queue: the time is spent on kernels of the step before.
TEST(CriticalPath, FollowsAFullQueueIntoTheStepBefore) {
  std::vector<ThreadMark> marks;
  std::vector<KernelTask> kernels;
  for (std::int32_t i = 0; i < 6; ++i) {
    marks.push_back(launch(i));
    kernels.push_back(kernel(100 + 10 * i));
  }
  const StepGraph step = graph({marks}, kernels);
  const Walked walked = walk({&step}, /*count=*/10, {.queue = 8});
  EXPECT_EQ(walked.ns, 6 * 101 + 150);
  std::int64_t on_device = 0;
  for (const PathPiece& one : walked.path)
    if (one.kernel != kNone) {
      EXPECT_TRUE(one.is_step_before);
      on_device += one.span.ns();
    }
  EXPECT_EQ(on_device, walked.ns - 5);  // except for the last call
  EXPECT_EQ(walked.path.back().cause, Cause::kQueue);
}

TEST(CriticalPath, WaitsForWhatTheStepBeforeHasLeft) {
  const StepGraph step =
      graph({{wait_all(), launch(0), compute(20)}}, {kernel(1000)});
  const Walked walked = walk({&step}, /*count=*/3);
  EXPECT_EQ(walked.ns, 2 + 4 + 1000);
  EXPECT_EQ(walked.text, "-k0 m0.0 m0.1 m0.2");
}

// For any graph, pieces fill the step (checked by walk()), and none is longer
// than its work.
TEST(CriticalPath, FillsStepsOfAnyGraph) {
  std::mt19937 random(7);
  const auto any = [&](int most) {
    return std::uniform_int_distribution<int>(0, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<StepGraph> graphs;
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<ThreadMark> marks;
      std::vector<KernelTask> kernels;
      std::int32_t collectives = 0;
      for (int i = 0; i < 30; ++i) {
        marks.push_back(compute(any(30)));
        if (any(9) == 0) marks.push_back(wait_all());
        marks.push_back(launch(i, any(20)));
        kernels.push_back(i % 10 == 9 ? collective(collectives++, 1)
                                      : kernel(any(60), any(4) == 0));
        if (i > 0 && any(3) == 0) kernels.back().after = {i - 1};
      }
      graphs.push_back(graph({marks}, kernels, /*streams=*/2));
    }
    walk({&graphs[0], &graphs[1], &graphs[2]}, 1 + round % 6,
         {.queue = static_cast<std::size_t>(4 + any(40))});
  }
}

TEST(CriticalPath, TimesAreThoseOfTheReplay) {
  const StepGraph step = graph({{launch(0, 10), launch(1), wait_all()}},
                               {kernel(100), kernel(200)});
  Replay replay;
  ReplayTimes times;
  replay.run(step);
  const std::int64_t ns = replay.run(step, &times);
  EXPECT_EQ(times.step.ns(), ns);
  EXPECT_EQ(times.marks[0].back(), times.step.end_ns);
  EXPECT_EQ(times.marks[0][0], times.step.begin_ns + 15);
  EXPECT_EQ(times.kernels[0].begin_ns, times.step.begin_ns + 14);
  EXPECT_EQ(times.kernels[1].ns(), 200);
  EXPECT_EQ(times.kernels[1].begin_ns, times.kernels[0].end_ns + 1);
}

}  // namespace
}  // namespace sheaf::plan
