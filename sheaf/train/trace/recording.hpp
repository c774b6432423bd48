#pragma once
// Records a few steps of a run; see docs/reference/trace.md.

#include <filesystem>
#include <iosfwd>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

struct RecordingOptions {
  std::filesystem::path file;  // ".json" or ".json.gz"
  int warmup = 5;              // steps before the first recorded one
  int steps = 3;
  int curvature = 0;            // number of samples; 0: no curvature
  bool has_sizes = true;        // record the sizes of operators' inputs
  std::ostream* out = nullptr;  // for a one-line summary; null: none
};

// The file of one rank: "a.rank2.json.gz" for "a.json.gz"; `file` itself if
// there is one rank.
std::filesystem::path file_of_rank(const std::filesystem::path& file, int rank,
                                   int ranks);

// Trains the config's network for the warm-up and recorded steps and writes a
// trace of this rank's recorded steps. Weights and checkpoints are not kept.
// All ranks must call it. Throws UsageError, before any step, if a name or
// number in the options is invalid.
void record(const comm::Group& group, const RunConfig& config,
            const RecordingOptions& options);

}  // namespace sheaf::train
