#include "tests/cli/run_sheaf.hpp"

namespace sheaf::cli {
namespace {

class RunFailure : public RunSheaf {
 protected:
  void expect_usage_error(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& words) {
    const RunResult result = run(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(result.err.rfind("sheaf: ", 0), 0u) << result.err;
    for (const std::string& word : words)
      EXPECT_NE(result.err.find(word), std::string::npos)
          << "'" << word << "' is missing in: " << result.err;
  }
};

TEST_P(RunFailure, GivesTheCodeOfTheFirstFailingRank) {
  // Rank 0 fails after rank 1 has certainly ended; rank 2 does not fail.
  const std::string pid = file("pid");
  const RunResult result =
      run({"run", "-n", "3", "--", "sh", "-c",
           kRank +
               "[ $R = 2 ] && exit 0; "
               "if [ $R = 1 ]; then echo $$ > " +
               pid + ".part; mv " + pid + ".part " + pid + "; exit 3; fi; " +
               "until [ -s " + pid + " ]; do sleep 0.01; done; " +
               "while kill -0 $(cat " + pid + ") 2>/dev/null; do " +
               "sleep 0.01; done; exit 4"});
  EXPECT_EQ(result.code, 3);
  // The reports may arrive in any order, but the last line comes last.
  ASSERT_EQ(lines_of(result.err).size(), 3u) << result.err;
  for (const std::string& text :
       {std::string("sheaf run: rank 1 (host "),
        ", pid " + lines_of(read_file(pid))[0] + ") exited with code 3\n",
        std::string("sheaf run: rank 0 (host "),
        std::string(") exited with code 4\n")})
    EXPECT_NE(result.err.find(text), std::string::npos)
        << "'" << text << "' is missing in: " << result.err;
  EXPECT_EQ(lines_of(result.err)[2],
            "sheaf run: rank 1 failed first; exit code 3");
}

TEST_P(RunFailure, NamesTheSignalAndEndsTheOthers) {
  ::setenv("SHEAF_RUN_GRACE", "0.1", 1);
  const RunResult result =
      run({"run", "-n", "3", "--", "sh", "-c",
           kRank + "echo $$ > " + file("pid") +
               ".$R; "
               "[ $R = 1 ] && kill -9 $$; exec sleep 600"});
  EXPECT_EQ(result.code, 137);
  EXPECT_NE(result.err.find(") was killed by signal 9 (SIGKILL)\n"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(lines_of(result.err).back(),
            "sheaf run: rank 1 failed first; exit code 137");
  for (const char* rank : {".0", ".2"}) {
    // A rank that did not get that far has no file.
    const auto pids = lines_of(read_file(file("pid") + rank));
    EXPECT_TRUE(
        eventually([&] { return pids.empty() || !is_running(pids[0]); }));
  }
}

TEST_P(RunFailure, AProgramThatCannotBeStarted) {
  expect_usage_error({"run", "-n", "2", "no-such-program"},
                     {"no program 'no-such-program' on PATH"});
  expect_usage_error({"run", "-n", "2", "--", file("absent")}, {"absent"});
  expect_usage_error({"run", "-n", "2", "--", folder_.string()},
                     {"is a directory"});
  write_file(file("plain"), "text");
  expect_usage_error({"run", "-n", "2", "--", file("plain")},
                     {"not executable", "chmod +x"});
  expect_usage_error({"run", "-n", "2"}, {"no program to run"});
}

TEST_P(RunFailure, NumbersThatDoNotFit) {
  expect_usage_error({"run", "-n", "16", "--topology", "4x3", "--", "true"},
                     {"4x3", "12", "16"});
  expect_usage_error({"run", "-n", "5", "--hosts", "a:2,b:2", "--", "true"},
                     {"5 ranks", "4 slots"});
  expect_usage_error({"run", "-n", "0", "--", "true"}, {"--ranks"});
  expect_usage_error({"run", "--unknown", "--", "true"}, {"--unknown"});
}

TEST_P(RunFailure, RankFiles) {
  write_file(file("ranks"), "rank 0=localhost slot=0\n");
  if (is_mpich()) {
    expect_usage_error({"run", "--rankfile", file("ranks"), "--", "true"},
                       {"rank files need Open MPI", "MPICH"});
    return;
  }
  EXPECT_EQ(run({"run", "--rankfile", file("ranks"), "--", "true"}).code, 0);
  expect_usage_error({"run", "-n", "2", "--rankfile", file("ranks"), "true"},
                     {"rank 1 is missing"});
  write_file(file("ranks"), "rank 0=localhost slot=4096\n");
  expect_usage_error({"run", "--rankfile", file("ranks"), "--", "true"},
                     {"ranks:1:", "4096"});
}

TEST_P(RunFailure, AnMpirunThatIsNone) {
  ::setenv("SHEAF_MPIEXEC", file("absent").c_str(), 1);
  expect_usage_error({"run", "-n", "2", "--", "true"}, {"SHEAF_MPIEXEC"});
  ::setenv("SHEAF_MPIEXEC", "/bin/true", 1);
  expect_usage_error({"run", "-n", "2", "--", "true"},
                     {"neither Open MPI nor MPICH"});
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RunFailure);
INSTANTIATE_TEST_SUITE_P(Mpi, RunFailure, testing::ValuesIn(installed_mpis()),
                         mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
