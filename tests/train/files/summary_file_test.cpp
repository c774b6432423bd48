#include "sheaf/train/files/summary_file.hpp"

#include <gtest/gtest.h>

namespace sheaf::train {
namespace {

TEST(SummaryFiles, HaveTheEndingAndTheNumbers) {
  const SummaryFile summary = parse_summary_file(
      R"({"ending": "finished", "ranks": 2, "best": 0.5, "best_metric": "f1"})");
  EXPECT_EQ(summary.ending, "finished");
  EXPECT_EQ(summary.number("ranks"), 2);
  EXPECT_EQ(summary.number("best"), 0.5);
  EXPECT_EQ(summary.number("best_metric"), std::nullopt);
}

TEST(SummaryFiles, DamagedOnesAreEmpty) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1]"),
        std::string("\xff"), std::string("{\"ending\": 5}"),
        std::string(1 << 20, '['), std::string("{\"ranks\": 1e999}")}) {
    const SummaryFile summary = parse_summary_file(text);
    EXPECT_EQ(summary.ending, "");
    EXPECT_TRUE(summary.numbers.empty());
  }
}

}  // namespace
}  // namespace sheaf::train
