#include <algorithm>
#include <random>
#include <thread>

#include "sheaf/base/system.hpp"
#include "tests/cli/run_sheaf.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::cli {
namespace {

class Run : public RunSheaf {};

TEST_P(Run, StartsMoreRanksThanCores) {
  const RunResult result =
      run({"run", "-n", "5", "--", "sh", "-c", kRank + "echo rank $R"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  auto lines = lines_of(result.out);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (std::vector<std::string>{"rank 0", "rank 1", "rank 2",
                                             "rank 3", "rank 4"}));
}

TEST_P(Run, SharesTheCoresAmongItsRanks) {
  ::unsetenv("OMP_NUM_THREADS");
  RunResult result =
      run({"run", "-n", "2", "--", "sh", "-c", "echo $OMP_NUM_THREADS"});
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const std::string share = std::to_string(std::max(1, cores / 2));
  EXPECT_EQ(lines_of(result.out), (std::vector{share, share})) << result.err;
  ::setenv("OMP_NUM_THREADS", "7", 1);
  result = run({"run", "-n", "2", "--", "sh", "-c", "echo $OMP_NUM_THREADS"});
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(result.out, "7\n7\n") << result.err;
}

TEST_P(Run, ChoosesKernelsUnlessTheUserDid) {
  ::unsetenv("OPENBLAS_CORETYPE");
  const std::vector<std::string> command{
      "run", "-n", "1", "--", "sh", "-c", "echo $OPENBLAS_CORETYPE"};
  EXPECT_EQ(run(command).out, openblas_core() + "\n");
  ::setenv("OPENBLAS_CORETYPE", "Zen", 1);
  const RunResult result = run(command);
  ::unsetenv("OPENBLAS_CORETYPE");
  EXPECT_EQ(result.out, "Zen\n") << result.err;
}

TEST_P(Run, PassesArgumentsOnUntouched) {
  const RunResult result = run({"run", "-n", "1", "printf", "%s|", "--prefix",
                                "a b", "--", "", "$HOME", "-n"});
  EXPECT_EQ(result.out, "--prefix|a b|--||$HOME|-n|") << result.err;
}

TEST_P(Run, CopiesBytesExactly) {
  std::mt19937 random(1);
  std::string bytes(300'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  write_file(file("data"), bytes);
  const RunResult result =
      run({"run", "-n", "1", "--", "sh", "-c",
           "cat " + file("data") + "; cat " + file("data") + " >&2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.out == bytes) << result.out.size() << " bytes";
  EXPECT_TRUE(result.err == bytes) << result.err.size() << " bytes";
}

TEST_P(Run, StandardInputGoesToRankZero) {
  // MPICH's launcher fails if more than 64 KiB of input are waiting.
  const std::string input(is_mpich() ? 30'000 : 500'000, 'i');
  write_file(file("in"), input);
  const RunResult result = run({"run", "-n", "3", "--", "sh", "-c",
                                kRank + "cat > " + file("got") + ".$R"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(read_file(file("got.0")) == input);
  EXPECT_EQ(read_file(file("got.1")) + read_file(file("got.2")), "");
}

// The lines of one rank, without the prefix.
std::vector<std::string> lines_of_rank(const std::string& text, int rank) {
  const std::string prefix = concat("[", rank, "] ");
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(text))
    if (line.rfind(prefix, 0) == 0) lines.push_back(line.substr(prefix.size()));
  return lines;
}

TEST_P(Run, PrefixedLinesAreWholeAndInOrder) {
  constexpr int kRanks = 3, kLines = 60;
  const RunResult result = run(
      {"run", "-n", "3", "--prefix", "--", "sh", "-c",
       kRank + "i=0; long=$(printf %06000d 0); while [ $i -lt 60 ]; do "
               "echo out $R $i $long; echo err $R $i >&2; i=$((i + 1)); done; "
               "printf 'no end'"});
  EXPECT_EQ(result.code, 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<std::string> out, err;
    for (int i = 0; i < kLines; ++i) {
      out.push_back(concat("out ", rank, " ", i, " ", std::string(6000, '0')));
      err.push_back(concat("err ", rank, " ", i));
    }
    out.push_back("no end");
    EXPECT_EQ(lines_of_rank(result.out, rank), out);
    EXPECT_EQ(lines_of_rank(result.err, rank), err);
  }
  EXPECT_EQ(lines_of(result.out).size(), kRanks * (kLines + 1u));
  EXPECT_EQ(lines_of(result.err).size(), kRanks * kLines * 1u);
}

TEST_P(Run, TopologyReachesTheRanks) {
  ::setenv("SHEAF_OPTIONS", "-mode r -dump_iter 5", 1);
  const RunResult result = run({"run", "-n", "2", "--topology", "2x1", "--",
                                "sh", "-c", "echo \"$SHEAF_OPTIONS\""});
  EXPECT_EQ(result.out, "-mode r:2x1 -dump_iter 5\n-mode r:2x1 -dump_iter 5\n");
}

TEST_P(Run, DryRunOnlyPrints) {
  const RunResult result =
      run({"run", "-n", "2", "--dry-run", "--", "touch", file("made")});
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.out.find(GetParam()), std::string::npos);
  EXPECT_NE(result.out.find(" -- touch " + file("made")), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(file("made")));
}

TEST_P(Run, VerbosePrintsTheLine) {
  const RunResult result = run({"run", "-n", "1", "-v", "--", "true"});
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find(GetParam()), std::string::npos);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Run);
// Without an MPI launcher, these suites have no tests.
TEST(InstalledMpis, ThereIsOne) {
  if (installed_mpis().empty()) SHEAF_SKIP_MISSING("no mpirun is installed");
}

INSTANTIATE_TEST_SUITE_P(Mpi, Run, testing::ValuesIn(installed_mpis()),
                         mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
