#include "sheaf/train/files/run_log.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::train {
namespace {

class RunLogs : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "log.jsonl";
};

TEST_F(RunLogs, RowsAreJson) {
  EXPECT_EQ(json_of({{"step", 1}, {"loss", 0.5}, {"a\"b", "x\n"}, {"no", {}}}),
            R"({"step": 1, "loss": 0.5, "a\"b": "x\n", "no": null})");
}

TEST_F(RunLogs, AResumedLogForgetsRowsThatWereNotSaved) {
  {
    RunLog log(path_, 0);
    for (const int step : {0, 1, 2, 3}) log.add({{"step", step}});
  }
  write_file_atomically(path_, read_file(path_) + "{\"step\": 0, \"cut");
  RunLog log(path_, 2);
  log.add({{"step", 2}, {"again", true}});
  EXPECT_EQ(read_file(path_),
            "{\"step\": 0}\n{\"step\": 1}\n{\"step\": 2, \"again\": true}\n");
}

// A checkpoint must not be saved before the rows of its steps.
TEST_F(RunLogs, SyncWritesAllRows) {
  RunLog log(path_, 0);
  log.add({{"step", 0}}, /*flush=*/false);
  EXPECT_EQ(read_file(path_), "");
  log.sync();
  EXPECT_EQ(read_file(path_), "{\"step\": 0}\n");
}

// The rows of earlier steps exist nowhere else.
TEST_F(RunLogs, ALogThatCannotBeReadIsNotReplaced) {
  std::filesystem::create_directory(path_);
  expect_throws<IoError>([&] { RunLog(path_, 5); }, {path_.string()});
  EXPECT_TRUE(std::filesystem::is_directory(path_));
}

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
