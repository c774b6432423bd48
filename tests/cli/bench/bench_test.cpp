// sheaf bench as a command, on real ranks.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "sheaf/topo/machine.hpp"
#include "tests/cli/run_sheaf.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::cli {
namespace {

using nlohmann::json;

// The MPI that the command was linked with, or none.
std::vector<std::string> own_mpi() {
  ::unsetenv("SHEAF_MPIEXEC");
  try {
    return {find_mpi().path};
  } catch (const UsageError&) {
    return {};
  }
}

class BenchSheaf : public RunSheaf {
 protected:
  RunResult bench(std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    return run(words);
  }

  // The rows of a quick run as JSON; an error contains the output.
  std::vector<json> rows(std::vector<std::string> words) {
    for (const char* word : {"--json", "--blocks", "2", "--iterations", "3"})
      words.push_back(word);
    const RunResult result = bench(words);
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<json> rows;
    for (const std::string& line : lines_of(result.out))
      rows.push_back(json::parse(line));
    return rows;
  }
};

TEST_P(BenchSheaf, EveryCollectiveIsRight) {
  for (const char* name :
       {"allreduce", "broadcast", "reduce", "all_gather", "reducescatter",
        "all_to_all", "gather", "scatter", "sendrecv", "barrier"})
    for (const json& row :
         rows({name, "-n", "2", "-b", "8", "-e", "64K", "-f", "100"})) {
      EXPECT_EQ(row["wrong"], 0) << name << " " << row;
      EXPECT_GT(row["time_us"], 0) << row;
    }
}

TEST_P(BenchSheaf, RowsHaveTheirFields) {
  const auto found = rows({"allreduce", "-n", "2", "-b", "8", "-e", "32K", "-f",
                           "64", "--versus", "mpi"});
  ASSERT_EQ(found.size(), 3u);
  const json& row = found.back();
  EXPECT_EQ(row["collective"], "allreduce");
  EXPECT_EQ(row["size_bytes"], 32768);
  EXPECT_EQ(row["count"], 8192);
  EXPECT_EQ(row["dtype"], "f32");
  EXPECT_EQ(row["ranks"], 2);
  EXPECT_EQ(row["hosts"], 1);
  EXPECT_EQ(row["buffer"], "arena");
  EXPECT_EQ(row["wrong"], 0);
  EXPECT_EQ(row["versus"], "mpi");
  EXPECT_EQ(row["versus_wrong"], 0);
  const double time = row["time_us"];
  EXPECT_DOUBLE_EQ(row["algbw_gbs"], 32768 / time / 1e3);
  EXPECT_DOUBLE_EQ(row["busbw_gbs"], 32768 / time / 1e3);  // 2(n-1)/n = 1
  EXPECT_DOUBLE_EQ(row["ratio"], row["versus_time_us"].get<double>() / time);
  EXPECT_DOUBLE_EQ(row["bound_fraction"], row["bound_us"].get<double>() / time);
}

TEST_P(BenchSheaf, PlainBuffersAndOtherTypesAreRight) {
  for (const char* place : {"--in-place", "--out-of-place"})
    for (const json& row :
         rows({"allreduce", "-n", "2", "-e", "64K", "--buffer", "plain",
               "--dtype", "bf16", "--op", "avg", place})) {
      EXPECT_EQ(row["wrong"], 0) << row;
      EXPECT_EQ(row["buffer"], "plain");
      EXPECT_EQ(row["dtype"], "bf16");
      EXPECT_EQ(row["in_place"], std::string(place) == "--in-place");
    }
}

TEST_P(BenchSheaf, TwoRivalsGiveTwoRows) {
  const RunResult probe =
      bench({"allreduce", "-n", "1", "-e", "8", "--versus", "gloo"});
  if (probe.err.find("built without Gloo") != std::string::npos)
    SHEAF_SKIP_MISSING("Gloo is not there");
  const auto found =
      rows({"allreduce", "-n", "2", "-e", "8", "--versus", "mpi,gloo"});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["versus"], "mpi");
  EXPECT_EQ(found[1]["versus"], "gloo");
  EXPECT_EQ(found[1]["versus_wrong"], 0);
  EXPECT_EQ(found[0]["time_us"], found[1]["time_us"]);
}

TEST_P(BenchSheaf, TextHasTheColumnsOfNcclTests) {
  const RunResult result =
      bench({"allreduce", "-n", "2", "-e", "8", "--versus", "mpi"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 4u);
  for (const char* word : {"size", "count", "type", "redop", "root", "time",
                           "algbw", "busbw", "#wrong", "bound", "mpi"})
    EXPECT_NE(lines[1].find(word), std::string::npos) << word;
}

TEST_P(BenchSheaf, RanksAreItselfUnderTheLauncher) {
  const RunResult result = run(
      {"run", "-n", "3", "--", sheaf_program(), "bench", "barrier", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(lines_of(result.out).size(), 1u) << result.out;
  EXPECT_EQ(json::parse(result.out)["ranks"], 3);
}

TEST_P(BenchSheaf, RecordsSayWhereAndHow) {
  const std::string path = file("rows/a.jsonl");
  for (int i = 0; i < 2; ++i)
    bench({"allreduce", "-n", "2", "-e", "8", "--record", path});
  const auto lines = lines_of(read_file(path));
  ASSERT_EQ(lines.size(), 2u);
  const json row = json::parse(lines[0]);
  for (const char* key : {"processor", "cores", "command", "commit", "date",
                          "blocks", "iterations", "spread_us"})
    EXPECT_TRUE(row.contains(key)) << key;
  const std::string command = row["command"];
  EXPECT_EQ(command.rfind("sheaf bench allreduce ", 0), 0u) << command;
  EXPECT_NE(command.find("--ranks 2"), std::string::npos) << command;
}

TEST_P(BenchSheaf, UsageErrorsAreReportedOnce) {
  for (const auto& [words, told] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"allreduc"}, "did you mean"},
           {{"broadcast", "-n", "2", "--root", "2"}, "--root is 2"},
           {{"allreduce", "-n", "2", "--mode", "b:3"}, "3"},
           {{"idle", "-n", "1"}, "two ranks"},
           {{"allreduce", "--frob"}, "--frob"}}) {
    const RunResult result = bench(words);
    EXPECT_EQ(result.code, 2) << words[0];
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    EXPECT_NE(result.err.find(told), std::string::npos) << result.err;
  }
}

TEST_P(BenchSheaf, UnwritableRecordIsReportedBeforeTheRun) {
  const RunResult result = bench({"barrier", "--record", "/dev/null/x"});
  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("/dev/null/x"), std::string::npos);
}

TEST_P(BenchSheaf, IdleRanksAreListed) {
  const auto found = rows({"idle", "-n", "2"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["library"], "sheaf");
  EXPECT_GT(found[0]["wait_ms"], 500);
  EXPECT_LT(found[0]["processor_ms"], found[0]["wait_ms"]);
}

TEST_P(BenchSheaf, GuardIsMeasuredOnAndOff) {
  const auto found = rows({"guard", "-n", "2"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GT(found[0]["guard_us"], 0);
  EXPECT_GT(found[0]["no_guard_us"], 0);
}

TEST_P(BenchSheaf, FitWritesAMachine) {
  const std::string path = file("machine.json");
  ::setenv("SHEAF_HOSTS", "2", 1);  // pretended ones, for the network
  const RunResult result = bench({"--fit", path, "-n", "4"});
  ::unsetenv("SHEAF_HOSTS");
  EXPECT_EQ(result.code, 0) << result.err;
  const topo::Machine machine = topo::load_machine(path);
  EXPECT_EQ(machine.hosts.size(), 2u);
  EXPECT_NE(machine.shm, topo::Machine{}.shm);
  EXPECT_NE(machine.network, topo::Machine{}.network);
  EXPECT_GT(machine.reduce_gbs, 0);
  for (const char* part : {"shared memory", "memory", "reduction", "network"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BenchSheaf);
INSTANTIATE_TEST_SUITE_P(Mpi, BenchSheaf, testing::ValuesIn(own_mpi()),
                         [](const auto&) { return std::string("own"); });

}  // namespace
}  // namespace sheaf::cli
