#include "sheaf/train/files/run_folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/train/files/durable.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

class RunFolders : public testing::Test {
 protected:
  RunFolders() : before_(fs::current_path()) {
    fs::current_path(folder_.path());
  }
  ~RunFolders() override { fs::current_path(before_); }

  TemporaryFolder folder_;
  fs::path before_;
};

fs::path created(const FolderRequest& request) {
  return RunFolder::create(request).path();
}
fs::path opened(const FolderRequest& request) {
  return RunFolder::open(request).path();
}

TEST_F(RunFolders, NumbersAreGivenInTurn) {
  const FolderRequest request{.config_name = "examples/mlp.yaml"};
  EXPECT_EQ(created(request), "runs/mlp-001");
  EXPECT_EQ(created(request), "runs/mlp-002");
  EXPECT_EQ(opened({.config_name = "mlp.yaml"}), "runs/mlp-002");
}

// Names that only resemble those of runs have no number.
TEST_F(RunFolders, TheNextNumberFollowsTheGreatest) {
  for (const char* name :
       {"mlp-002", "mlp-010", "mlp-99", "mlp-+77", "mlp-1e3", "mlp-0x20",
        "mlp-020b", "other-050", "mlp-99999999999999999999"})
    fs::create_directories(fs::path("runs") / name);
  const FolderRequest request{.config_name = "mlp.yaml"};
  EXPECT_EQ(opened(request), "runs/mlp-010");
  EXPECT_EQ(created(request), "runs/mlp-011");
  fs::create_symlink("nowhere", "runs/mlp-1234");
  EXPECT_EQ(created(request), "runs/mlp-1235");
}

TEST_F(RunFolders, IsNeverOverwritten) {
  const FolderRequest request{.folder = "a/b", .config_name = "c.yaml"};
  EXPECT_EQ(created(request), "a/b");
  EXPECT_EQ(created(request), "a/b");  // still empty
  write_file_atomically("a/b/log.jsonl", "x");
  EXPECT_THROW(created(request), UsageError);
  EXPECT_EQ(read_whole("a/b/log.jsonl"), "x");
  write_file_atomically("file", "x");
  EXPECT_THROW(created({.folder = "file"}), UsageError);
  EXPECT_THROW(created({.folder = "file/below"}), IoError);
}

// Nothing is left in a folder that is refused.
TEST_F(RunFolders, ARefusedFolderIsUntouched) {
  fs::create_directory("mine");
  write_file_atomically("mine/notes.txt", "x");
  EXPECT_THROW(created({.folder = "mine"}), UsageError);
  { const RunFolder folder = RunFolder::open({.folder = "mine"}); }
  EXPECT_FALSE(fs::exists("mine/run.lock"));
}

TEST_F(RunFolders, AResumedRunMustBeThere) {
  EXPECT_THROW(opened({.folder = "none"}), UsageError);
  EXPECT_THROW(opened({.config_name = "a.yaml"}), UsageError);
}

void expect_in_use(const std::string& path) {
  const std::string holder = concat("process ", ::getpid(), " on host ");
  expect_throws<FolderInUse>([&] { opened({.folder = path}); },
                             {path, holder, "wait", "--output"});
  expect_throws<FolderInUse>([&] { created({.folder = path}); },
                             {path, holder});
}

TEST_F(RunFolders, NoSecondRunEnters) {
  {
    const RunFolder folder = RunFolder::create({.folder = "a"});
    expect_in_use("a");
  }
  RunFolder again = RunFolder::open({.folder = "a"});
  again.begin_writing();
  expect_in_use("a");
}

// The run that creates a folder and one that resumes it compete.
TEST_F(RunFolders, RunsThatStartAtOnceGetDifferentFolders) {
  constexpr int kRuns = 16;
  const FolderRequest request{.config_name = "a.yaml"};
  std::vector<RunFolder> folders(kRuns);
  std::vector<std::thread> threads;
  std::atomic<int> resumed = 0;
  for (int i = 0; i < kRuns; ++i)
    threads.emplace_back([&, i] {
      folders[static_cast<std::size_t>(i)] = RunFolder::create(request);
      try {
        RunFolder::open(request);
      } catch (const UsageError&) {
        ++resumed;
      }
    });
  for (std::thread& one : threads) one.join();
  std::set<fs::path> paths;
  for (const RunFolder& one : folders) paths.insert(one.path());
  EXPECT_EQ(paths.size(), std::size_t{kRuns});
}

TEST_F(RunFolders, OneOfManyGetsAGivenFolder) {
  constexpr int kRuns = 16;
  std::vector<RunFolder> folders(kRuns);
  std::vector<std::thread> threads;
  std::atomic<int> refused = 0;
  for (int i = 0; i < kRuns; ++i)
    threads.emplace_back([&, i] {
      try {
        folders[static_cast<std::size_t>(i)] =
            RunFolder::create({.folder = "a/b"});
      } catch (const FolderInUse&) {
        ++refused;
      }
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(refused, kRuns - 1);
}

TEST_F(RunFolders, LeftoversOfAKilledRunAreRemoved) {
  fs::create_directory("a");
  for (const char* name : {"config.yaml.tmp.12.0", "trace.rank1.json.tmp.ab",
                           "notes.tmp.1", "trace.rank1.json"})
    write_file_atomically(fs::path("a") / name, "x");
  EXPECT_THROW(created({.folder = "a"}), UsageError);
  RunFolder folder = RunFolder::open({.folder = "a"});
  EXPECT_TRUE(fs::exists("a/config.yaml.tmp.12.0"));
  folder.begin_writing();
  EXPECT_FALSE(fs::exists("a/config.yaml.tmp.12.0"));
  EXPECT_FALSE(fs::exists("a/trace.rank1.json.tmp.ab"));
  EXPECT_TRUE(fs::exists("a/notes.tmp.1"));
  EXPECT_TRUE(fs::exists("a/trace.rank1.json"));
}

// run.lock cannot be opened: here, because it is a folder.
TEST_F(RunFolders, AFolderThatCannotBeLockedIsReadOnly) {
  fs::create_directories("a/run.lock");
  RunFolder folder = RunFolder::open({.folder = "a"});
  expect_throws<IoError>([&] { folder.check_writable(); }, {"a/run.lock"});
  expect_throws<IoError>([&] { folder.begin_writing(); }, {"a/run.lock"});
}

}  // namespace
}  // namespace sheaf::train
