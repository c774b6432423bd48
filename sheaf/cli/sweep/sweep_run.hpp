#pragma once
// Runs the jobs of a sweep one after the other.

#include <string>

#include "sheaf/cli/sweep/sweep_plan.hpp"

namespace sheaf::cli {

struct SweepOptions {
  std::string again;        // the command line that goes on with it, for people
  bool has_report = false;  // this program has the command `report`
  bool stops_on_error = false;
};

// Runs what has not finished, tells how it went on standard output, and makes
// the report of what has finished. 0 when every job has; 1 when one failed;
// 128 + n after signal n, which ends the current job first. It must be called
// from the main thread.
int run_sweep(SweepPlan plan, const SweepOptions& options);

}  // namespace sheaf::cli
