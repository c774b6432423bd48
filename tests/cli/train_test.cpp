#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "tests/cli/run_sheaf.hpp"
#include "tests/support/missing.hpp"

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
constexpr int kStepsPerEpoch = 50;

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

  std::string saved(const std::string& output, const std::string& name) const {
    return read_file(file(output + "/checkpoints/latest/" + name));
  }

  // The value of a key in a summary; 0 if the key is missing.
  static double number_in(const std::string& summary, const std::string& key) {
    const std::string quoted = "\"" + key + "\": ";
    const std::size_t place = summary.find(quoted);
    return place == summary.npos
               ? 0
               : std::stod(summary.substr(place + quoted.size()));
  }

  // The step of the last complete row of the log; -1 if there is no row.
  int last_step(const std::string& output) const {
    std::string log = read_file(file(output + "/log.jsonl"));
    log.resize(log.rfind('\n') + 1);
    const std::string key = "\"step\":";
    const std::size_t place = log.rfind(key);
    return place == log.npos ? -1 : std::stoi(log.substr(place + key.size()));
  }

  // Whether a run that was killed has left an incomplete checkpoint.
  bool is_saving(const std::string& output) const {
    std::error_code none;
    for (const auto& entry :
         fs::directory_iterator(file(output) + "/checkpoints", none))
      if (entry.path().filename().string().rfind(".unfinished", 0) == 0)
        return true;
    return false;
  }

  // The processes of this test's ranks, found by the config that only they
  // read.
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

  // Kills one of the two ranks, or both; returns which.
  std::string kill_ranks(std::mt19937& random) const {
    const auto pids = rank_pids();
    EXPECT_EQ(pids.size(), 2u);
    const std::size_t victim = random() % 3;
    for (std::size_t i = 0; i < pids.size(); ++i)
      if (victim == 2 || victim == i) EXPECT_EQ(::kill(pids[i], SIGKILL), 0);
    return victim == 2 ? "both ranks" : "one rank";
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

TEST_P(Train, AnErrorIsReportedOnceWithItsLine) {
  const RunResult result = run(command("x", {"--set", "epoch=3"}));
  EXPECT_EQ(result.code, 2);
  const std::string told = "did you mean 'epochs'?";
  const std::size_t first = result.err.find(told);
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(told, first + 1), std::string::npos) << result.err;
  EXPECT_EQ(run({"train", file("none.yaml"), "-n", "2"}).code, 5);
}

TEST_P(Train, AMismatchedNetworkIsReportedInOneLine) {
  write_file(file("a.yaml"),
             std::string(kConfig).replace(
                 std::string(kConfig).find("[16, 8, 3]"), 10, "[15, 8, 3]"));
  const RunResult result =
      run({"train", file("a.yaml"), "-n", "1", "--output", file("x")});
  EXPECT_EQ(result.code, 2);
  ASSERT_EQ(lines_of(result.err).size(), 1u) << result.err;
  EXPECT_EQ(result.err.rfind("sheaf: layer ", 0), 0u) << result.err;
  for (const char* words :
       {"(Linear 15 -> 8): ", "8x16 and 15x8", "; its input was [8, 16]"})
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
}

// The error precedes the creation of the folder, even if only one rank would
// read such a label.
TEST_P(Train, LabelsWithoutOutputsAreReportedOnce) {
  for (const char* set : {"network.arguments.sizes=[16, 8, 2]", "loss=mse"}) {
    const RunResult result = run(command("x", {"--set", set}));
    EXPECT_EQ(result.code, 2) << result.err;
    const std::string told =
        std::string(set) == "loss=mse" ? "loss is mse" : "only 2 outputs";
    const std::size_t first = result.err.find(told);
    ASSERT_NE(first, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find(told, first + 1), std::string::npos)
        << result.err;
    EXPECT_FALSE(fs::exists(file("x")));
  }
}

TEST_P(Train, AFolderOfSomethingElseIsNotResumed) {
  fs::create_directory(file("x"));
  write_file(file("x/log.jsonl"), "mine\n");
  const RunResult result = run(command("x", {"--resume"}));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("log.jsonl"), std::string::npos) << result.err;
  EXPECT_EQ(read_file(file("x/log.jsonl")), "mine\n");
  EXPECT_FALSE(fs::exists(file("x/config.yaml")));
}

// Only rank 0 writes. The other ranks end because it failed, often before it
// does.
TEST_P(Train, AFullDiskIsBlamedOnTheRankThatWrites) {
  const std::string disk = file("disk");
  fs::create_directory(disk);
  const std::string mount =
      "mount -t tmpfs -o size=40k tmpfs " + disk + " 2>/dev/null";
  if (std::system(("unshare -m sh -c '" + mount + "' 2>/dev/null").c_str()))
    GTEST_SKIP() << "no file system can be mounted here";
  const std::string train = "SHEAF_DUMP_DIR=" + folder_.string() + " " +
                            sheaf_program() + " train " + file("a.yaml") +
                            " -n 2 --output " + disk + "/run";
  const std::string command = "unshare -m sh -c '" + mount + " && " + train +
                              " > " + file("out") + " 2> " + file("err") + "'";
  const int status = std::system(command.c_str());
  const std::string err = read_file(file("err"));
  EXPECT_EQ(code_of_wait_status(status), 5) << err;
  const std::string last = lines_of(err).back();
  EXPECT_EQ(last.rfind("sheaf run: rank 0 failed first; exit code 5: ", 0), 0u)
      << err;
  EXPECT_NE(last.find("No space left on device"), std::string::npos) << err;
}

// The run would take hours. The step at which it was stopped determines the
// length of the other runs.
TEST_P(Train, StopsAtSigtermAndGoesOn) {
  start(command("parts", {"--set", "epochs=1000000"}));
  ASSERT_TRUE(eventually([&] { return last_step("parts") > 20; }));
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
  EXPECT_TRUE(saved("whole", "weights.pt") == saved("parts", "weights.pt"));
}

// Set SHEAF_TEST_KILLS=20 for more. The run would take hours, so no kill can
// come too late. The step of the last kill determines the length of the other
// runs.
TEST_P(Train, AKilledRunGoesOnAsIfNothingHadHappened) {
  const char* setting = std::getenv("SHEAF_TEST_KILLS");
  const int kills = setting ? std::stoi(setting) : 3;
  std::mt19937 random(std::random_device{}());
  Words more{"--set", "epochs=1000000"};
  int step = -1;
  for (int i = 0; i < kills; ++i) {
    start(command("parts", more));
    // Later than all rows of earlier runs.
    const int target = step + 1 + static_cast<int>(random() % 40);
    ASSERT_TRUE(eventually([&] { return last_step("parts") >= target; }))
        << "step " << last_step("parts") << " of " << target << "\n"
        << read_file(file("out")) << read_file(file("err"));
    ::usleep(random() % 20000);  // any moment of a step or of a checkpoint
    const std::string victims = kill_ranks(random);
    const RunResult result = finish();
    ASSERT_EQ(result.code, 128 + SIGKILL) << result.err;
    step = last_step("parts");
    std::cout << "kill " << i + 1 << " of " << kills << " hit " << victims
              << " after step " << step
              << (is_saving("parts") ? ", in a checkpoint" : "") << std::endl;
    if (i == 0) more.push_back("--resume");
  }
  more[1] = "epochs=" + std::to_string(step / kStepsPerEpoch + 1);
  const RunResult rest = run(command("parts", more));
  EXPECT_EQ(rest.code, 0) << rest.err;
  ASSERT_EQ(run(command("whole", {more[0], more[1]})).code, 0);
  EXPECT_EQ(last_step("whole"), last_step("parts"));
  EXPECT_TRUE(saved("whole", "weights.pt") == saved("parts", "weights.pt"));
}

// A report shows the values that the run has logged.
TEST_P(Train, ALogBecomesAReport) {
  const Words more{"--set", "epochs=2",
                   "--set", "data.validation=40",
                   "--set", "parallel.strategy=dad",
                   "--set", "dad.log_layers=true"};
  ASSERT_EQ(run(command("a", more)).code, 0);
  const RunResult made = run({"report", file("a"), "-o", file("report.html")});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string page = read_file(file("report.html"));
  const std::string summary = read_file(file("a/summary.json"));
  for (const char* key :
       {"train_loss", "test_loss", "test_accuracy", "validation_loss"}) {
    const double value = number_in(summary, key);
    EXPECT_GT(value, 0) << key;
    std::ostringstream text;  // of six digits, as the page has them
    text << '"' << key << "\":" << value;
    EXPECT_NE(page.find(text.str()), page.npos) << text.str();
  }
  EXPECT_NE(page.find("0.weight"), page.npos) << "no layers of dad";
}

// A loss that is not finite ends the run with its exit code; the cause is
// printed once.
TEST_P(Train, ALossThatIsNotFiniteEndsTheRun) {
  const RunResult result = run(
      command("a", {"--set", "optimizer={name: sgd, learning_rate: 1e30}"}));
  EXPECT_EQ(result.code, 6) << result.err;
  const std::string told = "is not finite";
  const std::size_t first = result.err.find(told);
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_NE(result.err.find("Found first on rank "), std::string::npos);
  EXPECT_FALSE(fs::exists(file("a/summary.json")));
}

TEST_P(Train, AChangedSettingMustBeAccepted) {
  const Words once{"--set", "epochs=1"};
  ASSERT_EQ(run(command("a", once)).code, 0);
  const std::string before = read_file(file("a/config.yaml"));
  Words other{"--resume", "--set", "epochs=2", "--set",
              "optimizer.learning_rate=0.02"};
  const RunResult refused = run(command("a", other));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("optimizer.learning_rate: 0.01 -> 0.02"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(read_file(file("a/config.yaml")), before);
  other.push_back("--accept-changes");
  EXPECT_EQ(run(command("a", other)).code, 0);
  EXPECT_EQ(last_step("a"), 2 * kStepsPerEpoch);
}

TEST_P(Train, TheExamplesRun) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist"))
    SHEAF_SKIP_MISSING("Debian's dataset-fashion-mnist is not installed");
  int count = 0;
  for (const auto& entry : fs::directory_iterator(SHEAF_EXAMPLE_FOLDER)) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string name = entry.path().stem();
    if (name.ends_with("_sweep")) continue;  // of `sheaf sweep`
    Words words{"train", entry.path(), "-n", "2", "--output", file(name)};
    for (const char* shorter :
         {"epochs=1", "data.limit=1024", "data.validation=64", "threads=1"})
      words.insert(words.end(), {"--set", shorter});
    const RunResult result = run(words);
    // For a missing dataset, the command can only print how to get it.
    if (result.code == 5 && result.err.find("to get it: ") != std::string::npos)
      continue;
    EXPECT_EQ(result.code, 0) << name << result.err;
    EXPECT_NE(result.out.find("test  loss"), std::string::npos) << result.out;
    const std::string summary = read_file(file(name + "/summary.json"));
    EXPECT_NE(summary.find("\"ending\": \"finished\""), std::string::npos);
    EXPECT_FALSE(saved(name, "weights.pt").empty());
    // After training on about 1,000 images, the accuracy is 34 to 68 %.
    // Guessing gives 10 % of 10,000, with a standard deviation of 0.3 %.
    if (read_file(entry.path()).find("fashion-mnist") != std::string::npos) {
      EXPECT_GT(number_in(summary, "test_accuracy"), 0.25) << name;
    }
    ++count;
  }
  EXPECT_GE(count, 3);
}

INSTANTIATE_TEST_SUITE_P(Mpi, Train, testing::Values("mpirun"), mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
