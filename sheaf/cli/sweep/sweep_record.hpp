#pragma once
// What a sweep keeps beside its runs: sweep.json, and the lock of its folder.

#include <filesystem>
#include <map>
#include <string>

#include "sheaf/cli/launch/process.hpp"
#include "sheaf/cli/sweep/sweep_plan.hpp"

namespace sheaf::cli {

struct JobRecord {
  // "waiting", "running", "finished", "failed" or "interrupted"
  std::string state = "waiting";
  int ranks = 0;
  int attempts = 0;
  double seconds = 0;  // over all attempts
  int exit_code = 0;   // of the last attempt
};

class SweepRecord {
 public:
  // What an earlier call has left, if it can be read.
  explicit SweepRecord(std::filesystem::path file);

  JobRecord& of(const SweepJob& job);
  // Of the plan's jobs, in their order. IoError names the file.
  void save(const SweepPlan& plan) const;
  // Mean of the jobs that have finished; 0 where none has.
  double mean_seconds() const;

 private:
  std::filesystem::path file_;
  std::map<std::string, JobRecord> records_;
};

// No other sweep works in `folder`, which is made, while the result lives or
// any process does that has inherited it: a job that an ended sweep has left
// is still at work. UsageError otherwise.
Fd lock_folder(const std::filesystem::path& folder);

}  // namespace sheaf::cli
