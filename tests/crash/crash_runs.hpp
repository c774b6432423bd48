#pragma once
// A small run, and the checks of its folder after a fault.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sheaf/train/config/config.hpp"
#include "tests/crash/injector.hpp"

namespace sheaf::crash {

// A fault was not survived. Ends a trial, not the program.
class Lost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
inline void require(bool condition, const std::string& what) {
  if (!condition) throw Lost(what);
}

struct RunKind {
  std::string name;
  std::string config;  // text
  int ranks = 1;       // as threads
};
// One run of each kind: ordinary; with pre-training, which saves step 0 again
// and again; and with a shard per rank.
const std::vector<RunKind>& run_kinds();

// Executes the run in the folder; the exit code of the command `sheaf train`.
// Call it in a child process.
int execute(const RunKind& kind, const std::filesystem::path& folder,
            bool is_resumed);

// The checkpoint that --resume starts from.
struct Progress {
  std::int64_t step = -1;  // -1: none
  std::int64_t pretrained_stages = 0;

  bool operator==(const Progress&) const = default;
};
std::string describe(const Progress& progress);
// Of the checkpoint in a folder, or of a draft.
Progress progress_in(const std::filesystem::path& checkpoint);
// Of the newest complete checkpoint of a run.
Progress newest_progress(const std::filesystem::path& folder);

// Everything about a run's result that does not depend on time. Throws Lost if
// files are missing or damaged.
struct Result {
  std::string log;      // rows without durations
  std::string summary;  // without durations
  std::string names;    // of all files and targets of links
  std::string tensors;  // checksums of all checkpoints
  std::string config;
};
Result result_in(const std::filesystem::path& folder);
// Throws Lost if they differ. With `is_damaged`, the folder may contain
// checkpoints that were set aside.
void expect_same(const Result& result, const Result& reference,
                 bool may_have_bad);

// Throws Lost if a link points to nothing or to an incomplete checkpoint, or if
// a name of a checkpoint belongs to an incomplete one.
void expect_consistent(const std::filesystem::path& folder);
// Throws Lost unless the folder is locked, or, with `is_held` false, unless it
// is not.
void expect_lock(const std::filesystem::path& folder, bool is_held);

}  // namespace sheaf::crash
