#pragma once
// The state of a sweep on disk: sweep.json, and the lock of its folder.

#include <filesystem>
#include <map>
#include <string>

#include "sheaf/cli/launch/process.hpp"
#include "sheaf/cli/sweep/sweep.hpp"

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
  // Loads the records of an earlier sweep; starts empty if there are none or
  // they cannot be parsed.
  explicit SweepRecord(std::filesystem::path file);

  JobRecord& of(const SweepJob& job);
  // Writes the records of the plan's jobs, in their order. Throws IoError with
  // the file's name.
  void save(const SweepPlan& plan) const;
  // Mean time of the finished jobs; 0 if there are none.
  double mean_seconds() const;

 private:
  std::filesystem::path file_;
  std::map<std::string, JobRecord> records_;
};

// Creates `folder` and locks it against other sweeps. The lock lasts while the
// result or any process that inherited it exists, so a job that outlives its
// sweep still holds it. Throws UsageError if the folder is locked.
Fd lock_folder(const std::filesystem::path& folder);

}  // namespace sheaf::cli
