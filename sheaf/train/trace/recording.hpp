#pragma once
// A few steps of a run, recorded: docs/trace.md.

#include <filesystem>
#include <iosfwd>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

struct RecordingOptions {
  std::filesystem::path file;  // ".json" or ".json.gz"
  int warmup = 5;              // steps before those that are recorded
  int steps = 3;
  int curvature = 0;            // samples of it; 0: it is not told
  bool has_sizes = true;        // of the operators' inputs
  std::ostream* out = nullptr;  // a line for people
};

// "a.rank2.json.gz" out of "a.json.gz".
std::filesystem::path file_of_rank(const std::filesystem::path& file, int rank,
                                   int ranks);

// Trains as the description says, for as many steps as it takes, and writes
// what this rank did in the recorded ones. Nothing else is kept. All ranks call
// it. UsageError for a wrong name or numbers, before anything is done.
void record(const comm::Group& group, const RunConfig& config,
            const RecordingOptions& options);

}  // namespace sheaf::train
