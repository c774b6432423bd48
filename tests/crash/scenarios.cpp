#include "tests/crash/scenarios.hpp"

#include <errno.h>

#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/train/checkpoint/checkpoint_places.hpp"

namespace sheaf::crash {
namespace {

namespace fs = std::filesystem;

bool is_exchange(const Call& call) { return call.name == "renameat2"; }

// A rename that turns a draft into a checkpoint.
bool publishes(const Call& call) {
  return call.name.starts_with("rename") &&
         call.path.find("/.unfinished-") != call.path.npos &&
         train::parse_checkpoint_name(fs::path(call.other).filename().string());
}

bool needs_space(const Call& call) {
  return call.changes &&
         (call.name.starts_with("open") || call.name.starts_with("write") ||
          call.name.starts_with("mkdir") || call.name.starts_with("symlink") ||
          call.name == "pwrite64");
}

bool removes_leftover(const Call& call) {
  return (call.name.starts_with("unlink") || call.name == "rmdir") &&
         call.path.find("/.unfinished-") != call.path.npos;
}

void require_success(const Outcome& outcome, const char* what) {
  require(outcome.code == 0, concat(what, " ended with code ", outcome.code,
                                    ": ", outcome.output));
}

std::set<fs::path> unfinished_in(const fs::path& folder) {
  std::set<fs::path> found;
  if (!fs::exists(folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".unfinished-") || is_temporary(name))
      found.insert(entry.path());
  }
  return found;
}

}  // namespace

void copy_folder(const fs::path& from, const fs::path& to) {
  fs::copy(from, to,
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

ScenarioRun::ScenarioRun(const Scenario& scenario, const fs::path& work)
    : scenario_(scenario), folder_(work / "run") {
  Seen seen = fresh_folder();
  const Outcome outcome =
      run({.fail = [&](const Call& call, int) { return observe(seen, call); }});
  require_success(outcome, "the run without faults");
  calls_ = outcome.calls;
  reference_ = result_in(folder_);
}

ScenarioRun::Seen ScenarioRun::fresh_folder() {
  remove_tree(folder_);
  Seen seen;
  if (scenario_.prepare) {
    scenario_.prepare(folder_);
    if (!scenario_.may_have_bad) seen.newest = newest_progress(folder_);
  }
  return seen;
}

Outcome ScenarioRun::run(const Injection& injection) const {
  return run_traced(folder_, injection, [this] {
    return execute(*scenario_.kind, folder_, scenario_.prepare != nullptr);
  });
}

// Returns the error of the file system, if the call is one of its features.
int ScenarioRun::observe(Seen& seen, const Call& call) const {
  if (call.name == "flock") seen.is_locked = true;
  if (is_exchange(call) && !scenario_.has_exchange) return EINVAL;
  if (publishes(call)) seen.newest = progress_in(call.path);
  return 0;
}

bool ScenarioRun::kill_at(int index) {
  Seen seen = fresh_folder();
  const Outcome outcome =
      run({.kill_at = index,
           .fail = [&](const Call& call, int) { return observe(seen, call); },
           .before_kill =
               [&](const Call&) {
                 if (seen.is_locked) expect_lock(folder_, true);
               }});
  if (!outcome.has_killed) return false;
  require(outcome.code == 128 + 9, concat("ended with code ", outcome.code));
  if (!scenario_.may_have_bad) {
    expect_consistent(folder_);
    const Progress newest = newest_progress(folder_);
    require(newest == seen.newest,
            concat("the newest checkpoint is that of ", describe(newest),
                   ", not of ", describe(seen.newest)));
  }
  recover(scenario_.may_have_bad);
  return true;
}

void ScenarioRun::recover(bool may_have_bad) const {
  const bool is_resumed = fs::exists(folder_);
  if (is_resumed) expect_lock(folder_, false);
  require_success(run_plainly([&] {
                    return execute(*scenario_.kind, folder_, is_resumed);
                  }),
                  is_resumed ? "--resume" : "a new run");
  expect_same(result_in(folder_), reference_, may_have_bad);
}

// Exactly one of the two runs gets the folder.
void ScenarioRun::overtake_at(int index) {
  Seen seen = fresh_folder();
  Outcome other;
  const Outcome outcome = run({.fail = [&](const Call& call, int i) {
    if (i == index && !seen.is_locked)
      other = run_plainly([&] {
        return execute(*scenario_.kind, folder_, fs::exists(folder_));
      });
    return observe(seen, call);
  }});
  require_success(other, "the run that overtakes");
  // The second to resume may find the run finished.
  require(outcome.code == 2 || (outcome.code == 0 && scenario_.prepare),
          concat("the run that was overtaken ended with code ", outcome.code,
                 ": ", outcome.output));
  expect_same(result_in(folder_), reference_, scenario_.may_have_bad);
}

void ScenarioRun::fail_at(int index, int error, bool persists) {
  Seen seen = fresh_folder();
  const std::set<fs::path> unfinished = unfinished_in(folder_);
  bool has_read_error = false, has_removal_error = false;
  const Outcome outcome = run({.fail = [&](const Call& call, int i) {
    const bool fails =
        i == index || (persists && i > index && needs_space(call));
    if (!fails) return observe(seen, call);
    has_read_error |= !call.changes;
    has_removal_error |= removes_leftover(call);
    return error;
  }});
  // What could not be removed stays until the next start, with a warning.
  const bool may_have_bad =
      scenario_.may_have_bad || has_read_error || has_removal_error;
  if (outcome.code == 0)
    return expect_same(result_in(folder_), reference_, may_have_bad);
  require(outcome.code == 5 || (has_read_error && outcome.code == 2),
          concat("ended with code ", outcome.code, ": ", outcome.output));
  require(outcome.output.find(folder_.string()) != std::string::npos,
          "the message does not name the file: " + outcome.output);
  if (persists)
    for (const fs::path& one : unfinished_in(folder_))
      require(unfinished.contains(one),
              "left on the full disk: " + one.string());
  if (!may_have_bad) expect_consistent(folder_);
  recover(may_have_bad);
}

}  // namespace sheaf::crash
