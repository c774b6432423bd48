#pragma once
// `sheaf train -n 2`, of which one process is killed.

#include <filesystem>
#include <string>

#include "tests/crash/crash_runs.hpp"

namespace sheaf::crash {

class ProcessRuns {
 public:
  // `program` is the command sheaf. Runs once without a fault.
  ProcessRuns(std::string program, const std::filesystem::path& work);

  // The number of calls that change something in the folder.
  std::size_t calls() const { return calls_; }

  // Kills the process that makes the call, then resumes the run. Throws Lost.
  void kill_at(int index);

 private:
  int start(bool is_resumed) const;

  std::string program_;
  std::filesystem::path config_;
  std::filesystem::path folder_;
  Result reference_;
  std::size_t calls_ = 0;
};

}  // namespace sheaf::crash
