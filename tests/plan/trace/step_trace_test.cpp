#include "sheaf/plan/trace/step_trace.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "sheaf/base/error.hpp"
#include "tests/plan/trace/trace_text.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

TEST(Steps, HoldWhatTheyLaunched) {
  TraceText text;
  text.step(1, 0, 100);
  text.step(2, 100, 100);
  text.op("aten::a", 1, 10, 20);
  text.kernel(1, 15, 7, 120, 30);  // runs in the second step
  text.op("aten::b", 1, 110, 20);
  text.op("aten::outside", 1, 300, 20);
  const Trace trace = read_steps(text.write());
  ASSERT_EQ(trace.steps.size(), 2u);
  EXPECT_EQ(trace.steps[0].label, "ProfilerStep#1");
  EXPECT_EQ(trace.steps[0].operators.size(), 1u);
  EXPECT_EQ(trace.steps[0].kernels.size(), 1u);
  EXPECT_EQ(trace.steps[1].kernels.size(), 0u);
  EXPECT_EQ(trace.names[trace.steps[1].operators[0].name], "aten::b");
}

TEST(Steps, WithoutMarksEverythingIsOne) {
  TraceText text;
  text.add("Operator", "aten::a", 1, 10, 20);
  text.add("Runtime", "cudaLaunchKernel", 1, 12, 4, "\"correlation\": 1");
  text.add("Kernel", "k", 7, 20, 4,
           "\"correlation\": 1, \"stream\": 7, \"device\": 0");
  const Trace trace = read_steps(text.write());
  ASSERT_EQ(trace.steps.size(), 1u);
  EXPECT_EQ(trace.steps[0].span.ns(), 20'000);
  EXPECT_EQ(trace.steps[0].kernels.size(), 1u);
  TraceText none;
  none.add("other", "x", 1, 0, 1);
  expect_throws<IoError>([&] { read_steps(none.write()); }, {"no steps"});
}

TEST(Steps, AreSortedByTime) {
  TraceText text;
  text.step(2, 100, 100);
  text.step(1, 0, 100);
  text.op("aten::late", 1, 110, 20);
  text.op("aten::early", 1, 10, 20);
  const Trace trace = read_steps(text.write());
  ASSERT_EQ(trace.steps.size(), 2u);
  EXPECT_EQ(trace.steps[0].label, "ProfilerStep#1");
  EXPECT_EQ(trace.steps[1].label, "ProfilerStep#2");
  ASSERT_EQ(trace.steps[0].operators.size(), 1u);
  EXPECT_EQ(trace.names[trace.steps[0].operators[0].name], "aten::early");
}

TEST(Steps, OperatorsAreSortedOuterOnesFirst) {
  TraceText text;
  text.step(1, 0, 100);
  text.op("aten::inner", 1, 10, 5);
  text.op("aten::outer", 1, 10, 20);
  text.op("aten::first", 2, 5, 1);
  const Trace trace = read_steps(text.write());
  std::vector<std::string> names;
  for (const TracedOperator& one : trace.steps[0].operators)
    names.push_back(trace.names[one.name]);
  EXPECT_EQ(names, (std::vector<std::string>{"aten::first", "aten::outer",
                                             "aten::inner"}));
  EXPECT_EQ(trace.steps[0].threads, (std::vector<std::string>{"7/1", "7/2"}));
  EXPECT_EQ(trace.steps[0].operators[0].thread, 1u);
}

TEST(Steps, CallsKnowTheKernelsInFlight) {
  TraceText text;
  text.step(1, 0, 200);
  text.kernel(1, 10, 7, 20, 100);
  text.kernel(1, 30, 7, 120, 10);
  text.kernel(1, 125, 7, 150, 10);
  const Trace trace = read_steps(text.write());
  ASSERT_EQ(trace.steps[0].calls.size(), 3u);
  EXPECT_EQ(trace.steps[0].calls[0].queued, 0);
  EXPECT_EQ(trace.steps[0].calls[1].queued, 1);
  EXPECT_EQ(trace.steps[0].calls[2].queued, 1);  // the first has ended
}

TEST(Names, EachTextHasOneNumber) {
  Names names;
  const std::uint32_t a = names.number_of("a"), b = names.number_of("b");
  EXPECT_NE(a, b);
  EXPECT_EQ(names.number_of("a"), a);
  EXPECT_EQ(names[a], "a");
  EXPECT_EQ(names[b], "b");
}

// Predictions add such numbers.
TEST(StepTrace, SumsThatCouldOverflowAreErrors) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.json";
  const auto is_reported = [&](const std::string& event, int count,
                               const std::string& what) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += (i == 0 ? "[{" : ",{") + event + "}";
    std::ofstream(path, std::ios::binary) << text << "]";
    expect_throws<IoError>([&] { read_steps(path); }, {"t.json", what});
  };
  const std::string three_days = "281474976710.656";
  is_reported("\"ph\": \"X\", \"cat\": \"cpu_op\", \"dur\": " + three_days,
              5000, "36 years together");
  is_reported("\"args\": {\"Bytes\": -281474976710656}", 5000, "2^60 bytes");
  is_reported("\"args\": {\"In msg nelems\": 281474976710656}", 5000,
              "2^60 elements");
  is_reported(
      "\"ph\": \"X\", \"cat\": \"cpu_op\", \"ts\": 1}, {\"ph\": "
      "\"X\", \"cat\": \"cpu_op\", \"ts\": 1712195495000000",
      1, "longer than three days");
}

TEST(StepTrace, StepsWithThousandsOfThreadsAreErrors) {
  TraceText text;
  for (int thread = 0; thread < 1024; ++thread)
    text.op("aten::add", thread, thread, 1);
  EXPECT_EQ(read_steps(text.write()).steps[0].threads.size(), 1024u);
  text.op("aten::add", 1024, 1024, 1);
  expect_throws<IoError>([&] { read_steps(text.write()); },
                         {"trace.json", "more than 1024 threads"});
}

}  // namespace
}  // namespace sheaf::plan
