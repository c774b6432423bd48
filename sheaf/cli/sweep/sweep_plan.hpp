#pragma once
// The jobs of a sweep, as sheaf-torch reads them from their file.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::cli {

enum class JobState {
  kNew,
  kBegun,     // goes on from its latest checkpoint
  kFinished,  // with these very settings
  kOther,     // its folder holds something else, such as other settings
};

struct SweepJob {
  std::string name;
  std::filesystem::path folder;
  int ranks = 1;
  std::vector<std::string> settings;  // "key=value", as `sheaf train --set`
  JobState state = JobState::kNew;
};

struct SweepPlan {
  std::filesystem::path base;  // the run description that all jobs begin with
  std::filesystem::path output;
  std::vector<SweepJob> jobs;
};

// Every job is checked as `sheaf train` would check it. `output` takes the
// place of the file's, unless it is empty. ExitWith after a mistake, which is
// told on standard error.
SweepPlan plan_sweep(const std::string& file, const std::string& output);

// The arguments of this program that run the job, or go on with it. Its folder
// must be there.
std::vector<std::string> train_words(const SweepPlan& plan,
                                     const SweepJob& job);

// A row per job, for --dry-run.
void print_sweep(const SweepPlan& plan, bool as_json);

}  // namespace sheaf::cli
