#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sheaf/cli/bench/bench_run.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/report/iteration_stats.hpp"

namespace sheaf::cli {
namespace {

// Both kinds of calls: 1000 to warm up, and one in each of 101 blocks.
TEST(BenchGuard, MeasuresAllReduces) {
  BenchJob job;
  job.args.iterations = 1;
  job.plan.format = TableFormat::kJson;
  testing::internal::CaptureStdout();
  comm::run_threads(2, [&](const comm::Group& group) {
    run_guard(group, job);
    EXPECT_GE(comm::IterationStats::of(group.core()).calls(), 2u * 1101);
    EXPECT_TRUE(group.core().runtime().has_guard());
  });
  const auto row =
      nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(row["ranks"], 2);
  EXPECT_GT(row["ratio"], 0);
}

}  // namespace
}  // namespace sheaf::cli
