#include "tests/cli/run_sheaf.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::cli {
namespace {

class RunGrace : public RunSheaf {};

// mpirun alone kills the others as soon as it sees a rank die.
TEST_P(RunGrace, SurvivorsOfAKilledMpiRankCanSpeak) {
#ifdef SHEAF_VICTIM_FOLDER
  const std::string program =
      concat(SHEAF_VICTIM_FOLDER, "/victim.",
             GetParam().substr(GetParam().rfind('.') + 1));
  if (find_executable(program).empty()) SHEAF_SKIP_MISSING("no " << program);
  const RunResult result = run({"run", "-n", "3", "--", program});
  EXPECT_EQ(result.code, 137) << result.err;
  for (const char* rank : {"rank 0 saw", "rank 1 saw"})
    EXPECT_NE(result.out.find(rank), std::string::npos) << result.out;
  EXPECT_EQ(lines_of(result.out).size(), 2u) << result.out;
  EXPECT_NE(result.err.find("(SIGKILL)"), std::string::npos) << result.err;
  EXPECT_EQ(lines_of(result.err).back(),
            "sheaf run: rank 2 failed first; exit code 137");
#else
  SHEAF_SKIP_MISSING("tests/cli/CMakeLists.txt is not part of the build");
#endif
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RunGrace);
INSTANTIATE_TEST_SUITE_P(Mpi, RunGrace, testing::ValuesIn(installed_mpis()),
                         mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
