#include "sheaf/comm/report/iteration_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sheaf::comm {
namespace {

ReportLine line_with(std::vector<std::int64_t> elapsed_ns) {
  ReportLine line;
  line.algorithm = "small";
  line.calls = 2;
  line.bytes = 2000;
  for (const std::int64_t ns : elapsed_ns) {
    LineTimes times;
    times.elapsed_ns = ns;
    times.local_ns = ns / 2;
    line.ranks.push_back(times);
  }
  line.tiers = {{.name = "host",
                 .outer = kHostTier,
                 .size = 3,
                 .algorithm = "shared",
                 .bound_us_per_byte = 0.001}};
  return line;
}

TEST(Report, LeastTimeInCallsIsLast) {
  Report report;
  report.machine = "test";
  report.bound_us_per_byte = 0.005;
  report.lines = {line_with({9000, 4000, 8000})};
  EXPECT_EQ(report.slowest_rank(), 1);
  EXPECT_DOUBLE_EQ(report.late_us(), 2.5);  // 5000 ns in 2 calls
  EXPECT_DOUBLE_EQ(total_us(report.lines[0]), 2);
  EXPECT_DOUBLE_EQ(tier_us(report.lines[0], report.lines[0].tiers[0]), 2.25);
  const auto parsed = nlohmann::json::parse(json_of(report));
  EXPECT_EQ(parsed["algorithms"][0]["bound_us"], 5.0);
  EXPECT_EQ(parsed["algorithms"][0]["fraction"], 2.5);
  EXPECT_EQ(parsed["algorithms"][0]["tiers"][0]["bound_us"], 1.0);
}

}  // namespace
}  // namespace sheaf::comm
