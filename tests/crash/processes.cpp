#include "tests/crash/processes.hpp"

#include <unistd.h>

#include <fstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"

namespace sheaf::crash {

ProcessRuns::ProcessRuns(std::string program, const std::filesystem::path& work)
    : program_(std::move(program)),
      config_(work / "run.yaml"),
      folder_(work / "processes") {
  std::ofstream(config_) << run_kinds()[2].config;
  const Outcome outcome = run_traced(folder_, {.counts_reads = false},
                                     [this] { return start(false); });
  require(outcome.code == 0, outcome.output);
  calls_ = outcome.calls.size();
  reference_ = result_in(folder_);
}

int ProcessRuns::start(bool is_resumed) const {
  const std::string output = folder_.string(), config = config_.string();
  ::execl(program_.c_str(), "sheaf", "train", config.c_str(), "-n", "2",
          "--output", output.c_str(), is_resumed ? "--resume" : nullptr,
          nullptr);
  return 127;
}

void ProcessRuns::kill_at(int index) {
  remove_tree(folder_);
  const Outcome outcome =
      run_traced(folder_, {.kill_at = index, .counts_reads = false},
                 [this] { return start(false); });
  if (!outcome.has_killed) return;  // fewer calls than in the first run
  require(outcome.code != 0, "the launcher has not noticed: " + outcome.output);
  expect_consistent(folder_);
  const bool is_resumed = std::filesystem::exists(folder_);
  if (is_resumed) expect_lock(folder_, false);
  const Outcome again = run_plainly([&] { return start(is_resumed); });
  require(again.code == 0, again.output);
  expect_same(result_in(folder_), reference_, /*may_have_bad=*/false);
}

}  // namespace sheaf::crash
