#include "sheaf/base/file_lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf {
namespace {

namespace fs = std::filesystem;
using State = FileLock::State;

class FileLocks : public testing::Test {
 protected:
  State state() const { return FileLock(file_).state(); }

  const TemporaryFolder folder_;
  const fs::path file_ = folder_.path() / "lock";
};

TEST_F(FileLocks, OneAtATime) {
  {
    const FileLock lock(file_);
    EXPECT_TRUE(lock.is_held());
    EXPECT_EQ(state(), State::kHeldByOther);
    EXPECT_EQ(state(), State::kHeldByOther);  // the attempt released nothing
  }
  EXPECT_EQ(state(), State::kHeld);
}

TEST_F(FileLocks, MovesWithTheObject) {
  FileLock first(file_);
  FileLock second(std::move(first));
  EXPECT_TRUE(second.is_held());
  EXPECT_FALSE(first.is_held());  // NOLINT: after the move, on purpose
  first = FileLock();
  EXPECT_EQ(state(), State::kHeldByOther);
  second = FileLock();
  EXPECT_EQ(state(), State::kHeld);
}

TEST_F(FileLocks, TheFileRemainsOnlyOnRequest) {
  { const FileLock lock(file_); }
  EXPECT_TRUE(folder_.names().empty());
  FileLock(file_).keep_file();
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"lock"});
  { const FileLock lock(file_); }
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"lock"});
}

TEST_F(FileLocks, OthersReadWhoHoldsIt) {
  FileLock lock(file_);
  lock.keep_file();
  lock.write_holder();
  EXPECT_EQ(FileLock(file_).holder().find(
                concat("process ", ::getpid(), " on host ")),
            0u);
  lock = FileLock();
  EXPECT_EQ(read_file(file_), "not locked\n");
  EXPECT_EQ(FileLock(file_).holder(), "");
}

// Another process has used the file between this one's open() and flock().
TEST_F(FileLocks, AUsedFileIsNotRemoved) {
  {
    const FileLock lock(file_);
    std::ofstream(file_) << "not locked\n";
  }
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"lock"});
}

TEST_F(FileLocks, TheHolderIsPlainText) {
  std::ofstream(file_) << "process\x1b[2J 1\n\xff" << std::string(1000, 'x');
  const std::string text = FileLock(file_).holder();
  EXPECT_EQ(text.substr(0, 14), "process[2J 1xx");
  EXPECT_LE(text.size(), 200u);
  EXPECT_EQ(read_file(file_).size(), 1015u);  // unchanged
}

// Whoever is killed, or forks a process that lives on, keeps nobody out.
TEST_F(FileLocks, EndsWithItsProcess) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock lock(file_);
    const char byte = lock.is_held();
    if (::write(ends[1], &byte, 1) != 1) ::_exit(1);
    ::pause();
  }
  char is_held = 0;
  ASSERT_EQ(::read(ends[0], &is_held, 1), 1);
  EXPECT_EQ(is_held, 1);
  EXPECT_EQ(state(), State::kHeldByOther);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(state(), State::kHeld);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(FileLocks, AForkedChildDoesNotKeepIt) {
  FileLock lock(file_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  lock = FileLock();
  EXPECT_EQ(state(), State::kHeld);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// A lock on a file that was removed meanwhile would exclude nobody.
TEST_F(FileLocks, ARemovedFileIsCreatedAgain) {
  const FileLock lock(file_);
  fs::remove(file_);
  const FileLock next(file_);
  EXPECT_TRUE(next.is_held());
  EXPECT_EQ(state(), State::kHeldByOther);
}

TEST_F(FileLocks, WhatIsNoFileIsNotWritable) {
  for (const fs::path& path :
       {folder_.path(), folder_.path() / "none" / "lock"}) {
    const FileLock lock(path);
    EXPECT_EQ(lock.state(), State::kNotWritable);
    EXPECT_NE(lock.problem(), "");
  }
  fs::create_symlink(folder_.path() / "other", file_);
  EXPECT_EQ(state(), State::kNotWritable);
  EXPECT_FALSE(fs::exists(folder_.path() / "other"));
}

}  // namespace
}  // namespace sheaf
