#include "sheaf/cli/launch/job_output.hpp"

#include <gtest/gtest.h>

namespace sheaf::cli {
namespace {

TEST(RankLines, KeepsRanksApart) {
  std::string text;
  RankLines lines([&text](std::string_view line) { text += line; });
  lines.feed(0, "one ");
  lines.feed(1, "two\nthr");
  EXPECT_EQ(text, "[1] two\n");
  lines.feed(0, "line\n\n");
  EXPECT_EQ(text, "[1] two\n[0] one line\n[0] \n");
  lines.finish(0);
  EXPECT_EQ(text, "[1] two\n[0] one line\n[0] \n");
  lines.finish_all();
  EXPECT_EQ(text, "[1] two\n[0] one line\n[0] \n[1] thr\n");
}

}  // namespace
}  // namespace sheaf::cli
