#include "sheaf/report/runs/timeline.hpp"

#include <gtest/gtest.h>

#include "tests/report/runs/run_files.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::report {
namespace {

// Times in microseconds.
std::string event(int rank, int thread, const std::string& name, double start,
                  double duration) {
  return fmt::format(
      R"({{"ph": "X", "pid": {}, "tid": {}, "cat": "train", "name": "{}", )"
      R"("ts": {}, "dur": {}, "args": {{"bytes": 8}}}})",
      rank, thread, name, start, duration);
}

std::string trace(const std::vector<std::string>& events,
                  std::int64_t base_ns = 0) {
  return fmt::format(R"({{"baseTimeNanoseconds": {}, "traceEvents": [{}]}})",
                     base_ns, fmt::join(events, ",\n"));
}

class TimelineTest : public testing::Test {
 protected:
  RunFiles files_;
};

TEST_F(TimelineTest, IsTheStepWithTheMedianTime) {
  // Steps end at 10, 20, 30, 40 (the first three are ignored), then after 7, 30
  // and 9 more.
  std::vector<std::string> events;
  for (const double end : {10, 20, 30, 40, 47, 77, 86})
    events.push_back(event(0, 0, "optimizer", end - 2, 2));
  events.push_back(event(0, 1, "exchange", 76, 3));
  const Timeline timeline =
      read_timeline(files_.write("a", "trace.json", trace(events)));
  EXPECT_EQ(timeline.steps, 7u);
  EXPECT_EQ(timeline.step, 6u);
  EXPECT_EQ(timeline.duration_us, 9);
  EXPECT_EQ(timeline.rows,
            (std::vector<std::string>{"rank 0", "rank 0 row 1"}));
  ASSERT_EQ(timeline.events.size(), 2u);
  EXPECT_EQ(timeline.events[0].name, "exchange");
  EXPECT_EQ(timeline.events[0].row, 1);
  EXPECT_EQ(timeline.events[0].start_us, 0);  // began before the step
  EXPECT_EQ(timeline.events[0].duration_us, 2);
  EXPECT_EQ(timeline.events[0].details, "bytes 8");
  EXPECT_EQ(timeline.events[1].start_us, 7);
  EXPECT_EQ(timeline.events[1].duration_us, 2);
}

// The clock of the second host began 2 s earlier.
TEST_F(TimelineTest, ClocksOfHostsAreAligned) {
  const std::int64_t base = 1'700'000'000'000'000'000;
  files_.write(
      "a", "trace.rank1.json",
      trace({event(1, 0, "forward", 2'000'015, 3)}, base - 2'000'000'000));
  const Timeline timeline = read_timeline(files_.write(
      "a", "trace.json",
      trace({event(0, 0, "optimizer", 8, 2), event(0, 0, "optimizer", 28, 2)},
            base)));
  EXPECT_EQ(timeline.rows, (std::vector<std::string>{"rank 0", "rank 1"}));
  ASSERT_EQ(timeline.events.size(), 2u);
  EXPECT_EQ(timeline.events[0].name, "forward");
  // A double has a resolution of 0.25 us for microseconds since 1970.
  EXPECT_NEAR(timeline.events[0].start_us, 5, 0.5);
}

TEST_F(TimelineTest, ClocksOfAHostAreTheSame) {
  files_.write("a", "trace.rank1.json",
               trace({event(1, 0, "forward", 15, 3)}, 500'000));
  const Timeline timeline = read_timeline(files_.write(
      "a", "trace.json",
      trace({event(0, 0, "optimizer", 8, 2), event(0, 0, "optimizer", 28, 2)},
            0)));
  ASSERT_EQ(timeline.events.size(), 2u);
  EXPECT_EQ(timeline.events[0].start_us, 5);
}

TEST_F(TimelineTest, IsEmptyWithoutTwoSteps) {
  EXPECT_TRUE(read_timeline(files_.path()).is_empty());
  const auto folder =
      files_.write("a", "trace.json", trace({event(0, 0, "optimizer", 8, 2)}));
  EXPECT_TRUE(read_timeline(folder).is_empty());
  EXPECT_TRUE(
      read_timeline(files_.write("b", "trace.json", trace({}))).is_empty());
}

TEST_F(TimelineTest, ADamagedTraceIsNamed) {
  const auto folder = files_.write("a", "trace.json", "{\"traceEvents\": [");
  expect_throws<IoError>([&] { read_timeline(folder); },
                         {"trace.json", "invalid trace"});
}

}  // namespace
}  // namespace sheaf::report
