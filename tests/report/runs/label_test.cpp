#include "sheaf/report/runs/label.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;
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
