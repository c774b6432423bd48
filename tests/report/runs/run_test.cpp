#include "sheaf/report/runs/run.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/report/runs/run_files.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;

class ReadRun : public testing::Test {
 protected:
  RunFiles files_;
};

TEST_F(ReadRun, NeedsALogOnly) {
  const report::Run run = read_run(files_.write_batches("net_DAD", 3, 1));
  EXPECT_EQ(run.label, "DAD");
  EXPECT_EQ(run.log.rows("batch").count, 3u);
  EXPECT_TRUE(run.config.empty());
  EXPECT_TRUE(run.routes.empty());
  EXPECT_TRUE(run.timeline.is_empty());
  EXPECT_EQ(run.ending, "");
}

TEST_F(ReadRun, ReadsWhatIsThere) {
  const fs::path folder = files_.write_batches("a", 1, 1);
  files_.write("a", "config.yaml",
               "optimizer:\n  name: sgd\n  betas: [0.9, 0.99]\nepochs: 3\n"
               "network: {arguments: {}, name: \"\"}\n");
  files_.write("a", "summary.json",
               R"({"ending": "finished", "ranks": 2, "best_metric": "f1"})");
  files_.write("a", "routes.json",
               R"({"layers": [{"name": "fc1.weight", "route": "dad",
               "reason": "few rows", "rows": 64, "in": 784, "out": 2048}]})");
  const report::Run run = read_run(folder);
  const std::vector<std::pair<std::string, std::string>> expected{
      {"optimizer.name", "sgd"},
      {"optimizer.betas", "[0.9, 0.99]"},
      {"epochs", "3"},
      {"network.arguments", "{}"},
      {"network.name", ""}};
  EXPECT_EQ(run.config, expected);
  EXPECT_EQ(run.ending, "finished");
  EXPECT_EQ(run.summary.at("ranks"), 2);
  EXPECT_EQ(run.summary.count("best_metric"), 0u);
  ASSERT_EQ(run.routes.size(), 1u);
  EXPECT_EQ(run.routes[0].reason, "few rows");
  EXPECT_EQ(run.routes[0].in, 784);
}

TEST_F(ReadRun, BadFilesAreNamed) {
  const fs::path folder = files_.write_batches("a", 1, 1);
  const auto expect_bad = [&](const char* name, const char* text,
                              const char* words) {
    files_.write("a", name, text);
    expect_throws<IoError>([&] { read_run(folder, {.with_traces = true}); },
                           {name, words});
    fs::remove(folder / name);
  };
  expect_bad("config.yaml", "a: 1\nb: [1, 2\n", "config.yaml:");
  expect_bad("summary.json", "{\"ending\": ", "invalid JSON");
  expect_bad("summary.json", "[]", "must be an object");
  expect_bad("summary.json", std::string(1 << 20, '[').c_str(),
             "nested deeper");
  expect_bad("config.yaml", "a: &x [*x]", "contains itself");
  expect_bad("config.yaml", "a: \xff", "not text");
  expect_bad("routes.json", "{}", "key 'layers' is missing");
  expect_bad("routes.json", "{\"layers\": [{\"name\": 3}]}",
             "key 'layers[0].name' must be a string");
  expect_bad("trace.json", "{\"traceEvents\": [{]}", "invalid trace");
  const auto bad_event = [&](const std::string& member, const char* words) {
    expect_bad("trace.json",
               ("{\"traceEvents\": [{\"ph\": \"X\", " + member + "}]}").c_str(),
               words);
  };
  bad_event("\"pid\": 1e300", "key 'pid' must be a whole number");
  bad_event("\"ts\": 1e300", "key 'ts' is too large");
  bad_event("\"dur\": \"x\"", "key 'dur' must be a number");
  bad_event("\"args\": " + std::string(1 << 20, '['), "nested too deep");
}

TEST_F(ReadRun, AFolderOfRunsTellsThem) {
  files_.write_batches("runs/a", 1, 1);
  files_.write_batches("runs/b", 1, 1);
  expect_throws<IoError>([&] { read_run(files_.path() / "runs"); },
                         {"no log.jsonl", "runs/a", "runs/b"});
  expect_throws<IoError>([&] { read_run(files_.path() / "none"); },
                         {"none", "no such folder"});
}

// Steps of 10, 50, 20, 30, ... us that end with "optimizer".
std::string trace_of(int rank, const std::vector<double>& durations) {
  std::string events =
      R"({"name": "thread_name", "ph": "M", "pid": 0, "tid": 1, )"
      R"("args": {"name": "groups"}})";
  double now = 1000;
  for (const double duration : durations) {
    const auto add = [&](const char* name, const char* category, int thread,
                         double start, double length) {
      events += fmt::format(
          ",\n{{\"name\": \"{}\", \"cat\": \"{}\", \"ph\": \"X\", \"pid\": {}, "
          "\"tid\": {}, \"ts\": {}, \"dur\": {}, \"args\": {{\"bytes\": 8}}}}",
          name, category, rank, thread, start, length);
    };
    add("all_reduce", "comm", 1, now + 1, duration / 2);
    add("optimizer", "train", 0, now + duration - 2, 2);
    now += duration;
  }
  return "{\"baseTimeNanoseconds\": 5000, \"traceEvents\": [\n" + events +
         "\n]}";
}

TEST_F(ReadRun, TheTimelineIsTheMedianStep) {
  const fs::path folder = files_.write_batches("a", 1, 1);
  // The first is not a complete step; the next three are ignored.
  const std::vector<double> steps{10, 900, 900, 900, 50, 20, 30, 40, 60};
  files_.write("a", "trace.json", trace_of(0, steps));
  files_.write("a", "trace.rank1.json", trace_of(1, steps));
  const Timeline timeline = read_run(folder, {.with_traces = true}).timeline;
  EXPECT_EQ(timeline.duration_us, 40);
  EXPECT_EQ(timeline.step, 7u);
  EXPECT_EQ(timeline.steps, 9u);
  EXPECT_EQ(timeline.rows,
            (std::vector<std::string>{"rank 0", "rank 0 groups", "rank 1",
                                      "rank 1 row 1"}));
  ASSERT_EQ(timeline.events.size(), 4u);
  EXPECT_EQ(timeline.events[0].name, "all_reduce");
  EXPECT_EQ(timeline.events[0].row, 1);
  EXPECT_EQ(timeline.events[0].start_us, 1);
  EXPECT_EQ(timeline.events[0].duration_us, 20);
  EXPECT_EQ(timeline.events[0].details, "bytes 8");
  EXPECT_EQ(timeline.events[3].name, "optimizer");
  EXPECT_EQ(timeline.events[3].start_us, 38);
}

TEST_F(ReadRun, TheTimelineCountsTheRanksThatItLeavesOut) {
  const fs::path folder = files_.write_batches("a", 1, 1);
  files_.write("a", "trace.json", trace_of(0, {10, 10, 10}));
  const auto left_out = [&](int ranks) {
    for (int rank = 1; rank < ranks; ++rank)
      files_.write("a", fmt::format("trace.rank{}.json", rank),
                   trace_of(rank, {10, 10, 10}));
    return read_run(folder, {.with_traces = true}).timeline.left_out;
  };
  EXPECT_EQ(left_out(8), 0);
  EXPECT_EQ(left_out(11), 3);
}

TEST_F(ReadRun, ATraceWithoutStepsHasNoTimeline) {
  const fs::path folder = files_.write_batches("a", 1, 1);
  files_.write("a", "trace.json", trace_of(0, {10}));
  EXPECT_TRUE(read_run(folder, {.with_traces = true}).timeline.is_empty());
  files_.write("a", "trace.json", "{\"traceEvents\": []}");
  EXPECT_TRUE(read_run(folder, {.with_traces = true}).timeline.is_empty());
}

using Texts = std::vector<std::string>;

TEST(Label, IsTheLastPartOfTheFolder) {
  EXPECT_EQ(label_of("logs/net_logs_DADs2b16"), "DADs2b16");
  EXPECT_EQ(label_of("logs/net_logs_DADs2b16/"), "DADs2b16");
  EXPECT_EQ(label_of("net_logs_DDP//"), "DDP");
  EXPECT_EQ(label_of("a_b/./plain"), "plain");
  EXPECT_EQ(label_of("ends_with_"), "ends_with_");
  EXPECT_NE(label_of("."), ".");
  EXPECT_FALSE(label_of("/").empty());
}

TEST(Labels, EqualOnesBecomeLonger) {
  const std::vector<fs::path> folders{"x/a_DAD", "x/b_DAD", "x/a_DDP"};
  EXPECT_EQ(labels_of(folders), (Texts{"a_DAD", "b_DAD", "DDP"}));
  const std::vector<fs::path> twins{"x/a_DAD", "y/a_DAD", "x/b_DAD"};
  EXPECT_EQ(labels_of(twins), (Texts{"x/a_DAD", "y/a_DAD", "b_DAD"}));
}

TEST(Labels, AreTakenAsGiven) {
  const std::vector<fs::path> folders{"a", "b"};
  EXPECT_EQ(labels_of(folders, Texts{"one", "two"}), (Texts{"one", "two"}));
  expect_throws<UsageError>([&] { labels_of(folders, Texts{"one"}); },
                            {"2 runs", "1 label", "--label"});
  expect_throws<UsageError>(
      [&] {
        labels_of(folders, Texts{"one", "one"});
      },
      {"two runs have the label 'one'", "--label"});
  const std::vector<fs::path> same{"x/a", "x/./a"};
  expect_throws<UsageError>([&] { labels_of(same); }, {"label 'x/a'"});
}

}  // namespace

}  // namespace sheaf::report
