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

}  // namespace
}  // namespace sheaf::train
