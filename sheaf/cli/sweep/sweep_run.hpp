#pragma once
// Runs the jobs of a sweep one after the other.

#include <string>

#include "sheaf/cli/sweep/sweep_plan.hpp"

namespace sheaf::cli {

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
