#pragma once
// The jobs of a sweep, read from the jobs file by sheaf-torch and run one after
// the other.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::cli {

enum class JobState {
  kNew,
  kBegun,     // resumes from its latest checkpoint
  kFinished,  // finished with the same settings
  kOther,     // its folder holds another run, such as one with other settings
};

struct SweepJob {
  std::string name;
  std::filesystem::path folder;
  int ranks = 1;
  std::vector<std::string> settings;  // "key=value", as `sheaf train --set`
  JobState state = JobState::kNew;
};

struct SweepPlan {
  std::filesystem::path base;  // config that all jobs start from
  std::filesystem::path output;
  std::vector<SweepJob> jobs;
};

// Reads the jobs file and checks every job as `sheaf train` would. `output`
// overrides the file's `output` unless it is empty. Errors are printed to
// standard error, then ExitWith is thrown.
SweepPlan plan_sweep(const std::string& file, const std::string& output);

// The arguments of `sheaf` that run or resume the job. The job's folder must
// exist.
std::vector<std::string> train_words(const SweepPlan& plan,
                                     const SweepJob& job);

// Prints one row per job, for --dry-run.
void print_sweep(const SweepPlan& plan, bool as_json);

struct SweepOptions {
  std::string again;        // command line that resumes the sweep, to print
  bool has_report = false;  // whether this program has the command `report`
  bool stops_on_error = false;
};

// Runs the unfinished jobs, prints their outcome to standard output, and writes
// a report of the finished ones. Returns 0 if every job finished, 1 if one
// failed, and 128 + n after signal n, which stops the current job first. Must
// be called from the main thread.
int run_sweep(SweepPlan plan, const SweepOptions& options);

}  // namespace sheaf::cli
