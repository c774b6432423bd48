#include "sheaf/train/files/run_folder.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/train/files/durable.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

class RunFolder : public testing::Test {
 protected:
  RunFolder() : before_(fs::current_path()) {
    fs::current_path(folder_.path());
  }
  ~RunFolder() override { fs::current_path(before_); }

  TemporaryFolder folder_;
  fs::path before_;
};

TEST_F(RunFolder, NumbersAreGivenInTurn) {
  const FolderRequest request{.config_name = "examples/mlp.yaml"};
  EXPECT_EQ(open_run_folder(request), "runs/mlp-001");
  EXPECT_EQ(open_run_folder(request), "runs/mlp-002");
  const FolderRequest again{.config_name = "mlp.yaml", .is_resumed = true};
  EXPECT_EQ(open_run_folder(again), "runs/mlp-002");
}

TEST_F(RunFolder, IsNeverOverwritten) {
  const FolderRequest request{.folder = "a/b", .config_name = "c.yaml"};
  EXPECT_EQ(open_run_folder(request), "a/b");
  EXPECT_EQ(open_run_folder(request), "a/b");  // still empty
  write_durably("a/b/log.jsonl", "x");
  EXPECT_THROW(open_run_folder(request), UsageError);
  EXPECT_EQ(read_whole("a/b/log.jsonl"), "x");
  write_durably("file", "x");
  EXPECT_THROW(open_run_folder({.folder = "file"}), UsageError);
  EXPECT_THROW(open_run_folder({.folder = "file/below"}), IoError);
}

TEST_F(RunFolder, AResumedRunMustBeThere) {
  EXPECT_THROW(open_run_folder({.folder = "none", .is_resumed = true}),
               UsageError);
  EXPECT_THROW(open_run_folder({.config_name = "a.yaml", .is_resumed = true}),
               UsageError);
}

TEST_F(RunFolder, RowsAreJson) {
  EXPECT_EQ(json_of({{"step", 1}, {"loss", 0.5}, {"a\"b", "x\n"}, {"no", {}}}),
            R"({"step": 1, "loss": 0.5, "a\"b": "x\n", "no": null})");
}

TEST_F(RunFolder, AResumedLogForgetsRowsThatWereNotSaved) {
  {
    RunLog log("log.jsonl", 0);
    for (const int step : {0, 1, 2, 3}) log.add({{"step", step}});
  }
  write_durably("log.jsonl", read_whole("log.jsonl") + "{\"step\": 0, \"cut");
  RunLog log("log.jsonl", 2);
  log.add({{"step", 2}, {"again", true}});
  EXPECT_EQ(read_whole("log.jsonl"),
            "{\"step\": 0}\n{\"step\": 1}\n{\"step\": 2, \"again\": true}\n");
}

TEST_F(RunFolder, AFullDiskIsAnIoError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP();
  EXPECT_THROW(write_durably("/dev/full", "x"), IoError);
}

}  // namespace
}  // namespace sheaf::train
