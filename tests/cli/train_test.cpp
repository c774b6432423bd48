#include <gtest/gtest.h>

#include <random>

#include "tests/cli/run_sheaf.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;

const char* const kConfig = R"(
data:
  name: synthetic
  arguments: {examples: 400, test_examples: 20, classes: 3, shape: [1, 4, 4]}
network: {name: mlp, arguments: {sizes: [16, 8, 3], dropout: 0.1}}
optimizer: {name: adam, learning_rate: 0.01}
epochs: 10
global_batch: 8
threads: 1
output: {log_every: 1, checkpoint_every: 7, tensorboard: false}
)";

class Train : public RunSheaf {
 protected:
  void SetUp() override {
    RunSheaf::SetUp();
    ::unsetenv("SHEAF_MPIEXEC");  // the one that the ranks are linked to
    const fs::path program = fs::path(sheaf_program()).parent_path();
    if (!fs::exists(program / "sheaf-torch"))
      GTEST_SKIP() << "built without libtorch";
    write_file(file("a.yaml"), kConfig);
  }

  using Words = std::vector<std::string>;
  Words command(const std::string& output, const Words& more = {}) const {
    Words words{"train", file("a.yaml"), "-n", "2", "--output", file(output)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string weights(const std::string& output) const {
    return read_file(file(output + "/checkpoints/latest/weights.pt"));
  }

  std::size_t rows(const std::string& output) const {
    return lines_of(read_file(file(output + "/log.jsonl"))).size();
  }

  // The ranks of this test's run, by the file that only they read.
  std::vector<pid_t> rank_pids() const {
    std::vector<pid_t> pids;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = read_file(entry.path() / "comm");
      const std::string line = read_file(entry.path() / "cmdline");
      if (name == "sheaf-torch\n" && line.find(file("a.yaml")) != line.npos)
        pids.push_back(std::stoi(entry.path().filename()));
    }
    return pids;
  }
};

TEST_P(Train, PrintsTheCompleteDescription) {
  const RunResult result = run(command("x", {"--print-config"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("sizes: [16, 8, 3]"), std::string::npos);
  EXPECT_NE(result.out.find("activation: relu"), std::string::npos);
  write_file(file("b.yaml"), result.out);
  EXPECT_EQ(run({"train", file("b.yaml"), "--print-config"}).out, result.out);
  EXPECT_FALSE(fs::exists(file("x")));
}

TEST_P(Train, AMistakeIsToldOnceWithItsPlace) {
  const RunResult result = run(command("x", {"--set", "epoch=3"}));
  EXPECT_EQ(result.code, 2);
  const std::string told = "did you mean 'epochs'?";
  const std::size_t first = result.err.find(told);
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(told, first + 1), std::string::npos) << result.err;
  EXPECT_EQ(run({"train", file("none.yaml"), "-n", "2"}).code, 5);
}

// The run would take hours; where it was stopped decides how long the others
// are.
TEST_P(Train, StopsAtSigtermAndGoesOn) {
  start(command("parts", {"--set", "epochs=1000000"}));
  ASSERT_TRUE(eventually([&] { return rows("parts") > 20; }));
  ::kill(pid_, SIGTERM);
  const RunResult stopped = finish();
  EXPECT_EQ(stopped.code, 128 + SIGTERM) << stopped.err;
  EXPECT_NE(stopped.out.find("the checkpoint is saved"), std::string::npos)
      << stopped.out << stopped.err;
  EXPECT_EQ(run(command("parts")).code, 2);  // it holds a run

  const std::string state =
      read_file(file("parts/checkpoints/latest/state.json"));
  const std::string key = "\"epoch\": ";
  const std::size_t place = state.find(key);
  ASSERT_NE(place, std::string::npos);
  const int epoch = std::stoi(state.substr(place + key.size()));
  const Words more{"--set", "epochs=" + std::to_string(epoch + 1)};
  ASSERT_EQ(run(command("whole", more)).code, 0);
  const RunResult rest = run(command("parts", {"--resume", more[0], more[1]}));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_TRUE(weights("whole") == weights("parts"));
}

// SHEAF_TEST_KILLS=20 for more. A kill may come too late; most do not.
TEST_P(Train, AKilledRunGoesOnAsIfNothingHadHappened) {
  ASSERT_EQ(run(command("whole")).code, 0);
  const std::size_t total = rows("whole");
  const char* setting = std::getenv("SHEAF_TEST_KILLS");
  const std::size_t kills = setting ? std::stoul(setting) : 3;
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  std::size_t killed = 0;
  for (std::size_t i = 0; i < kills; ++i) {
    start(command("parts", i == 0 ? Words{} : Words{"--resume"}));
    const std::size_t moment = (i * total + random() % total) / (kills + 1);
    ASSERT_TRUE(eventually([&] { return rows("parts") > moment; }));
    const auto pids = rank_pids();
    if (!pids.empty()) ::kill(pids[random() % pids.size()], SIGKILL);
    const RunResult result = finish();
    EXPECT_TRUE(result.code == 128 + SIGKILL || result.code == 0) << result.err;
    killed += result.code != 0;
  }
  EXPECT_GT(killed, 0u);
  const RunResult rest = run(command("parts", {"--resume"}));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_TRUE(weights("whole") == weights("parts"));
}

INSTANTIATE_TEST_SUITE_P(Mpi, Train, testing::Values("mpirun"), mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
