#include "sheaf/base/trace.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "sheaf/base/error.hpp"
#include "temporary_folder.hpp"

namespace sheaf {
namespace {

using nlohmann::json;

class Trace : public ::testing::Test {
 protected:
  json read() const { return json::parse(std::ifstream(path_)); }
  // Without the names of processes and threads.
  std::vector<json> events() const {
    std::vector<json> found;
    const json all = read();
    for (const json& event : all["traceEvents"])
      if (event["ph"] == "X") found.push_back(event);
    return found;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "trace.json";
};

TEST_F(Trace, AnEventHasTheFieldsOfTheSchema) {
  {
    TraceWriter writer(path_, {.rank = 3});
    writer.name_thread(7, "groups");
    writer.add({.name = "all_reduce \"x\"",
                .category = "comm",
                .thread = 7,
                .start_us = 3600000000.125,
                .duration_us = 12.5,
                .args = {{"bytes", 1024}, {"algorithm", "ring"}}});
  }
  const json expected = {{"name", "all_reduce \"x\""},
                         {"cat", "comm"},
                         {"ph", "X"},
                         {"pid", 3},
                         {"tid", 7},
                         {"ts", 3600000000.125},
                         {"dur", 12.5},
                         {"args", {{"bytes", 1024}, {"algorithm", "ring"}}}};
  ASSERT_EQ(events().size(), 1u);
  EXPECT_EQ(events()[0], expected);
  EXPECT_EQ(read()["otherData"]["schema"], "sheaf.trace.1");
  EXPECT_EQ(read()["otherData"]["rank"], 3);
}

TEST_F(Trace, RowsHaveNames) {
  TraceWriter writer(path_, {.rank = 2});
  writer.name_thread(1, "tier 0");
  writer.flush();
  const json all = read()["traceEvents"];
  EXPECT_EQ(all[0]["name"], "process_name");
  EXPECT_EQ(all[0]["args"]["name"], "rank 2");
  EXPECT_EQ(all[1]["name"], "thread_name");
  EXPECT_EQ(all[1]["tid"], 1);
  EXPECT_EQ(all[1]["args"]["name"], "tier 0");
}

TEST_F(Trace, TheFileIsValidAtAnyTime) {
  TraceWriter writer(path_);
  EXPECT_EQ(events().size(), 0u);
  writer.add({.name = "a", .category = "c"});
  EXPECT_EQ(events().size(), 0u);
  writer.flush();
  EXPECT_EQ(events().size(), 1u);
  writer.add({.name = "b",
              .category = "c",
              .args = {{"x", std::numeric_limits<double>::infinity()}}});
  writer.flush();
  EXPECT_EQ(events().size(), 2u);
  EXPECT_TRUE(events()[1]["args"]["x"].is_null());
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"trace.json"});
}

TEST_F(Trace, NothingIsWrittenBeforeItIsOpened) {
  {
    TraceWriter writer(TraceOptions{.rank = 1});
    writer.add({.name = "lost", .category = "c"});
    writer.flush();
  }
  EXPECT_TRUE(folder_.names().empty());
  TraceWriter writer(TraceOptions{.rank = 1});
  writer.add({.name = "a", .category = "c"});
  EXPECT_THROW(writer.open(folder_.path() / "none" / "trace.json"), IoError);
  writer.open(path_);
  EXPECT_EQ(events().size(), 1u);
  EXPECT_EQ(read()["otherData"]["rank"], 1);
}

TEST_F(Trace, ThreadsMayAddAtOnce) {
  {
    TraceWriter writer(path_);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&writer, t] {
        for (int i = 0; i < 100; ++i)
          writer.add({.name = "e", .category = "c", .thread = t});
      });
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(events().size(), 400u);
}

TEST_F(Trace, EventsBeyondTheLimitAreCounted) {
  {
    TraceWriter writer(path_, {.max_events = 2});
    for (int i = 0; i < 5; ++i) writer.add({.name = "e", .category = "c"});
  }
  EXPECT_EQ(events().size(), 2u);
  EXPECT_EQ(read()["otherData"]["dropped_events"], 3);
}

TEST_F(Trace, ASpanLastsFromConstructorToDestructor) {
  const double before = trace_now_us();
  {
    TraceWriter writer(path_);
    TraceSpan span(&writer, "step", "train", /*thread=*/2);
    span.add_arg("iteration", 5);
  }
  const double after = trace_now_us();
  ASSERT_EQ(events().size(), 1u);
  const json event = events()[0];
  EXPECT_EQ(event["name"], "step");
  EXPECT_EQ(event["args"]["iteration"], 5);
  constexpr double kRounding = 0.002;  // times are written to 0.001
  EXPECT_GE(event["ts"].get<double>(), before - kRounding);
  EXPECT_GE(event["dur"].get<double>(), 0);
  EXPECT_LE(event["ts"].get<double>() + event["dur"].get<double>(),
            after + kRounding);
}

TEST_F(Trace, TheBaseTimeLeadsToTheWallClock) {
  TraceWriter writer(path_);
  const double start_ns = read()["baseTimeNanoseconds"].get<double>();
  const double now_s = (start_ns + trace_now_us() * 1e3) / 1e9;
  EXPECT_NEAR(now_s, static_cast<double>(std::time(nullptr)), 60);
}

TEST_F(Trace, WithoutAWriterASpanDoesNothing) {
  TraceSpan span(nullptr, "step", "train");
  EXPECT_NO_THROW(span.add_arg("iteration", 5));
}

TEST_F(Trace, AWrongPathIsAnErrorAtOnce) {
  EXPECT_THROW(TraceWriter(folder_.path() / "no" / "trace.json"), IoError);
}

}  // namespace
}  // namespace sheaf
