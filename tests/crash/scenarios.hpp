#pragma once
// What happens to a run in its folder before and while faults are injected.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/crash/crash_runs.hpp"

namespace sheaf::crash {

struct Scenario {
  std::string name;
  const RunKind* kind = nullptr;
  // Makes the folder as an earlier process left it; null: a new run.
  std::function<void(const std::filesystem::path& folder)> prepare = nullptr;
  bool has_exchange = true;   // of names, by renameat2()
  bool may_have_bad = false;  // checkpoints that were set aside
};

// Runs the scenario with one fault at a time, in `work`/run.
class ScenarioRun {
 public:
  ScenarioRun(const Scenario& scenario, const std::filesystem::path& work);

  // The calls of the run without faults.
  const std::vector<Call>& calls() const { return calls_; }

  // Kills the run before the call; then the newest state must be complete, no
  // second run may have been able to enter, and the run must be resumed with
  // the result of the reference. False if there is no such call.
  bool kill_at(int index);
  // The run is stopped before it has locked its folder, and another one runs.
  void overtake_at(int index);
  // The call, and with `persists` all later ones that need space, fail. The run
  // must either succeed or report it, and then be resumed.
  void fail_at(int index, int error, bool persists);

 private:
  // What was seen of a run while it was traced.
  struct Seen {
    Progress newest;  // complete checkpoint whose name exists
    bool is_locked = false;
  };
  Seen fresh_folder();
  int observe(Seen& seen, const Call& call) const;
  Outcome run(const Injection& injection) const;
  void recover(bool may_have_bad) const;

  const Scenario& scenario_;
  const std::filesystem::path folder_;
  Result reference_;
  std::vector<Call> calls_;
};

// Copies a folder with its links.
void copy_folder(const std::filesystem::path& from,
                 const std::filesystem::path& to);

}  // namespace sheaf::crash
