// Exceptions that a program does not catch: one line per rank and the exit code
// of the error, with ranks started by sheaf run and by mpirun.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf {
namespace {

struct Ending {
  int code = -1;
  std::vector<std::string> lines;
  std::string text;
};

Ending run(const std::string& launcher, const std::string& how) {
  const TemporaryFolder folder;
  const std::string command =
      concat("SHEAF_LOG=off SHEAF_DUMP_DIR=", folder.path(), " ", launcher,
             " -n 2 ", UNCAUGHT_PROGRAM, " ", how, " 2>&1");
  Ending ending;
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return ending;
  char buffer[4096];
  while (fgets(buffer, sizeof buffer, pipe)) ending.text += buffer;
  const int status = pclose(pipe);
  ending.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::istringstream in(ending.text);
  for (std::string line; std::getline(in, line);) ending.lines.push_back(line);
  return ending;
}

int count(const Ending& ending, const std::string& words) {
  int found = 0;
  for (const std::string& line : ending.lines)
    found += line.find(words) != line.npos;
  return found;
}

struct Case {
  std::string how;
  int code;
  std::string line;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.how; }

class Uncaught : public testing::TestWithParam<Case> {
 protected:
  static void expect_one_line(const Ending& ending) {
    EXPECT_EQ(ending.code, GetParam().code) << ending.text;
    EXPECT_EQ(count(ending, GetParam().line), 1) << ending.text;
    EXPECT_EQ(count(ending, "terminate called"), 0) << ending.text;
    EXPECT_EQ(count(ending, "frame #"), 0) << ending.text;
    EXPECT_EQ(count(ending, "Aborted"), 0) << ending.text;
  }
};

TEST_P(Uncaught, UnderSheafRun) {
  const Ending ending = run(SHEAF_PROGRAM " run", GetParam().how);
  expect_one_line(ending);
  EXPECT_EQ(
      count(ending, concat("rank 1 failed first; exit code ", GetParam().code)),
      1)
      << ending.text;
  EXPECT_EQ(count(ending, "sheaf: rank 0: "), 1) << ending.text;
}

TEST_P(Uncaught, UnderMpirun) {
  expect_one_line(run(MPI_LAUNCHER, GetParam().how));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Uncaught,
    testing::Values(Case{"usage", 2, "sheaf: rank 1: a wrong argument"},
                    Case{"io", 5, "sheaf: rank 1: no space"},
                    Case{"std", 1, "sheaf: rank 1: plain"},
                    Case{"unknown", 1, "sheaf: rank 1: an exception that is"},
                    Case{"thread", 6, "sheaf: rank 1: wrong sum"}),
    [](const auto& info) { return info.param.how; });

TEST(UncaughtWithHandler, TheProgramsOwnIsKept) {
  const Ending ending = run(SHEAF_PROGRAM " run", "own");
  EXPECT_EQ(ending.code, 9) << ending.text;
  EXPECT_GE(count(ending, "the program's own handler"), 1) << ending.text;
  EXPECT_EQ(count(ending, "sheaf: rank"), 0) << ending.text;
  EXPECT_EQ(count(ending, "rank 1 failed first"), 1) << ending.text;
}

}  // namespace
}  // namespace sheaf
