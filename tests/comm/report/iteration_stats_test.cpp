#include "sheaf/comm/report/iteration_stats.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/ddl/dump_folder.hpp"

namespace sheaf::comm {
namespace {

using nlohmann::json;

void all_reduces(const Group& group, int calls, std::size_t count) {
  std::vector<float> data(count, 1);
  for (int i = 0; i < calls; ++i)
    all_reduce(group, data, {.op = ReduceOp::kMax}).wait();
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The output of rank 0 while the ranks do `calls` all-reduces and end.
std::string printed(const std::vector<std::string>& hosts,
                    const std::string& options, int calls, std::size_t count) {
  testing::internal::CaptureStderr();
  run_threads(
      hosts, [&](const Group& group) { all_reduces(group, calls, count); },
      topo::parse_options(options + " -timeout 30s"));
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(says(text, "at the end of the program")) << text;
  return text;
}

std::vector<json> reports(const test::DumpFolder& folder) {
  std::vector<json> lines;
  std::istringstream text(folder.text("sheaf.report.jsonl"));
  for (std::string line; std::getline(text, line);)
    lines.push_back(json::parse(line));
  return lines;
}

const std::vector<std::string> kFourOnTwo{"a", "a", "b", "b"};

TEST(IterationStats, PrintsNothingByDefault) {
  const test::DumpFolder folder;
  EXPECT_EQ(printed({"a", "a"}, "", 10, 100), "");
  EXPECT_TRUE(folder.names().empty());
}

TEST(IterationStats, ReportsEveryNCalls) {
  const test::DumpFolder folder;
  const std::string text = printed({"a", "a"}, "-dump_iter 4", 11, 100);
  EXPECT_TRUE(says(text, "all-reduces 1 to 4 of group 0")) << text;
  EXPECT_TRUE(says(text, "all-reduces 5 to 8 of group 0")) << text;
  EXPECT_FALSE(says(text, "9 to")) << text;
  const auto lines = reports(folder);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["schema"], "sheaf.report.1");
  EXPECT_EQ(lines[1]["first_call"], 5);
  EXPECT_EQ(lines[1]["last_call"], 8);
  EXPECT_EQ(lines[1]["ranks"].size(), 2u);
  const json& kind = lines[1]["algorithms"].at(0);
  EXPECT_EQ(kind["algorithm"], "small");
  EXPECT_EQ(kind["calls"], 4);
  EXPECT_EQ(kind["bytes"], 4 * 400);
  EXPECT_GT(kind["time_us"], 0.0);
  EXPECT_GT(kind["fraction"], 0.0);
}

TEST(IterationStats, HasARowPerTier) {
  const test::DumpFolder folder;
  const std::string text =
      printed(kFourOnTwo, "-mode b:2x2 -dump_iter 3", 3, 300000);
  EXPECT_TRUE(says(text, "host") && says(text, "tier 1") &&
              says(text, "slowest"))
      << text;
  const json tiers = reports(folder).at(0)["algorithms"].at(0)["tiers"];
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_EQ(tiers[0]["tier"], "host");
  EXPECT_EQ(tiers[0]["algorithm"], "shared");
  EXPECT_EQ(tiers[0]["size"], 2);
  EXPECT_EQ(tiers[1]["tier"], "tier 1");
  EXPECT_EQ(tiers[1]["algorithm"], "ring");
  EXPECT_EQ(tiers[1]["size"], 2);
  for (const json& tier : tiers) {
    EXPECT_GT(tier["time_us"], 0.0);
    EXPECT_GT(tier["bound_us"], 0.0);
  }
}

TEST(IterationStats, DistinguishesDeclaredTiers) {
  const test::DumpFolder folder;
  printed({"a", "b", "c", "d"}, "-mode r:2x2 -dump_iter 2", 2, 100000);
  const json kind = reports(folder).at(0)["algorithms"].at(0);
  EXPECT_TRUE(says(kind["algorithm"], "flat tiers=ring:2,ring:2")) << kind;
  ASSERT_EQ(kind["tiers"].size(), 2u);
  EXPECT_GT(kind["tiers"][0]["time_us"], 0.0);
  EXPECT_GT(kind["tiers"][1]["time_us"], 0.0);
}

TEST(IterationStats, DistinguishesKindsOfCalls) {
  const test::DumpFolder folder;
  testing::internal::CaptureStderr();
  run_threads(
      2,
      [](const Group& group) {
        all_reduces(group, 1, 10);
        all_reduces(group, 1, 100000);
      },
      topo::parse_options("-dump_iter 2"));
  testing::internal::GetCapturedStderr();
  const json kinds = reports(folder).at(0)["algorithms"];
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0]["algorithm"], "small");
  EXPECT_TRUE(says(kinds[1]["algorithm"], "shared segment="));
}

// Rank 1 arrives late, while the others wait for it.
TEST(IterationStats, NamesTheRankThatCameLast) {
  const test::DumpFolder folder;
  testing::internal::CaptureStderr();
  run_threads(
      {"a", "a", "b"},
      [](const Group& group) {
        const auto others_wait = [&] {
          for (const int rank : {0, 2}) {
            const auto last = group.core().runtime().latest(rank);
            if (!last || last->call.operation != Operation::kAllReduce ||
                last->has_ended)
              return false;
          }
          return true;
        };
        std::vector<float> data(100, 1);
        for (int i = 0; i < 2; ++i) {
          barrier(group).wait();
          if (group.rank() == 1) {
            while (!others_wait()) {
              group.core().runtime().refresh_remote();
              std::this_thread::yield();
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
          }
          all_reduce(group, data).wait();
        }
      },
      topo::parse_options("-dump_iter 2"));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(says(text, "slowest: rank 1,")) << text;
  EXPECT_EQ(reports(folder).at(0)["slowest_rank"], 1);
  EXPECT_GT(reports(folder).at(0)["late_us"], 0.0);
}

TEST(IterationStats, EveryGroupCountsForItself) {
  const test::DumpFolder folder;
  testing::internal::CaptureStderr();
  run_threads(
      4,
      [](const Group& group) {
        const Group half = group.split(group.rank() / 2);
        all_reduces(half, 3, 10);
        all_reduces(group, 2, 10);
      },
      topo::parse_options("-dump_iter 3"));
  testing::internal::GetCapturedStderr();
  const auto lines = reports(folder);
  ASSERT_EQ(lines.size(), 2u);  // of the two halves
  EXPECT_EQ(lines[0]["ranks"].size(), 2u);
  EXPECT_NE(lines[0]["group"], 0);
}

TEST(IterationStats, EveryRankWritesATrace) {
  const test::DumpFolder folder;
  printed({"a", "b"}, "-dump_iter 2", 5, 1000);
  for (const int rank : {0, 1}) {
    const json trace =
        json::parse(folder.text(concat("sheaf.trace.", rank, ".json")));
    int calls = 0;
    int tiers = 0;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      EXPECT_EQ(event["pid"], rank);
      EXPECT_GE(event["dur"], 0.0);
      event["name"] == "all_reduce" ? ++calls : ++tiers;
    }
    EXPECT_EQ(calls, 5);
    EXPECT_GE(tiers, 1);
  }
}

TEST(IterationStats, DebugLevelsTalk) {
  const test::DumpFolder folder;
  const LogLevel before = log_level();
  const std::string mild = printed({"a", "a"}, "-dbg_level 1", 3, 10);
  EXPECT_TRUE(says(mild, "group 0: 2 ranks on 1 hosts")) << mild;
  EXPECT_TRUE(says(mild, "use small")) << mild;
  EXPECT_FALSE(says(mild, "all-reduce 2 of")) << mild;
  const std::string detailed = printed({"a", "a"}, "-dbg_level 2", 3, 10);
  EXPECT_TRUE(says(detailed, "all-reduce 1 of 40 B f32, small")) << detailed;
  EXPECT_TRUE(says(detailed, "all-reduce 3 of 40 B f32, small")) << detailed;
  set_log_level(before);
}

// All ranks make the same choices.
TEST(IterationStats, OnlyRankZeroLogsTheChoices) {
  const LogLevel before = log_level();
  for (const int noting : {0, 1}) {
    testing::internal::CaptureStderr();
    run_threads(
        2,
        [&](const Group& group) {
          IterationStats& stats = IterationStats::of(group.core());
          if (group.rank() == noting)
            stats.note({.path = DataPath::kSmall, .plan = {}}, DType::kF32, 40,
                       {});
        },
        topo::parse_options("-dbg_level 1"));
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(says(text, "all-reduces of about 40 B use small"), noting == 0)
        << text;
  }
  set_log_level(before);
}

TEST(IterationStats, UnwritableFolderDoesNotDisturb) {
  const test::ScopedVariable folder("SHEAF_DUMP_DIR", "/nonexistent");
  const std::string text = printed({"a", "a"}, "-dump_iter 1", 2, 10);
  EXPECT_TRUE(says(text, "all-reduces 2 to 2")) << text;
  EXPECT_TRUE(says(text, "cannot write")) << text;
}

}  // namespace
}  // namespace sheaf::comm
