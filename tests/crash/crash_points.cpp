// Kills runs at every system call that concerns their folder, lets each call
// fail, and fills the disk; then resumes them.
// crash_points FOLDER [--quick] [--only NAME] [--sheaf PROGRAM]
// Files are written to FOLDER, best in memory: /dev/shm.
#include <errno.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "tests/crash/full_disk.hpp"
#include "tests/crash/processes.hpp"
#include "tests/crash/scenarios.hpp"
#include "tests/crash/sync_order.hpp"

namespace sheaf::crash {
namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path folder;
  bool is_quick = false;
  std::string only;   // part of a scenario's name
  std::string sheaf;  // the program; empty: none
};

// Results of one kind of faults in one scenario.
class Tally {
 public:
  Tally(std::string scenario, std::string fault)
      : scenario_(std::move(scenario)), fault_(std::move(fault)) {}
  ~Tally() {
    fmt::print("{:<36} {:<22} {:>5} trials  {:>3} lost\n", scenario_, fault_,
               trials_, lost_);
    std::fflush(stdout);
    total_trials += trials_;
    total_lost += lost_;
  }
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  // Counts a trial; false if `trial` returns false.
  template <class Trial>
  bool count(const std::string& what, const Trial& trial) {
    try {
      if (!trial()) return false;
    } catch (const std::exception& error) {
      ++lost_;
      fmt::print("LOST: {}, {} at {}: {}\n", scenario_, fault_, what,
                 error.what());
    }
    ++trials_;
    return true;
  }

  static inline int total_trials = 0;
  static inline int total_lost = 0;

 private:
  std::string scenario_, fault_;
  int trials_ = 0;
  int lost_ = 0;
};

// The indices 0 ... count - 1, or about `most` of them.
std::vector<int> points(std::size_t count, std::size_t most) {
  std::vector<int> all;
  const std::size_t used = std::min(count, most);
  for (std::size_t i = 0; i < used; ++i)
    all.push_back(static_cast<int>(i * count / used));
  return all;
}

std::vector<int> where(const std::vector<Call>& calls,
                       const std::function<bool(const Call&)>& is_chosen) {
  std::vector<int> chosen;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (is_chosen(calls[i])) chosen.push_back(static_cast<int>(i));
  return chosen;
}

std::vector<int> some(const std::vector<int>& all, std::size_t most) {
  std::vector<int> some;
  for (const int i : points(all.size(), most))
    some.push_back(all[static_cast<std::size_t>(i)]);
  return some;
}

std::string at(const ScenarioRun& run, int index) {
  const auto& calls = run.calls();
  const auto place = static_cast<std::size_t>(index);
  return concat(
      "call ", index, " of ", calls.size(),
      place < calls.size() ? " (" + describe(calls[place]) + ")" : "");
}

// With threads as ranks, the order and number of calls vary: beyond the last
// call of the reference there may be more.
void kill_everywhere(ScenarioRun& run, const Scenario& scenario,
                     bool is_quick) {
  Tally tally(scenario.name, "killed");
  const auto changes =
      where(run.calls(), [](const Call& call) { return call.changes; });
  if (is_quick) {
    for (const int index : some(changes, scenario.kind->ranks == 1 ? 10 : 3))
      tally.count(at(run, index), [&] { return run.kill_at(index); });
    return;
  }
  for (int i = 0; tally.count(at(run, i), [&] { return run.kill_at(i); }); ++i)
    continue;
}

int error_of(const Call& call) {
  if (call.name == "flock") return ENOLCK;
  if (!call.changes || call.name == "fsync" || call.name == "unlink" ||
      call.name == "rmdir")
    return EIO;
  return ENOSPC;
}

void fail_everywhere(ScenarioRun& run, const Scenario& scenario,
                     bool is_quick) {
  const auto all = where(run.calls(), [](const Call&) { return true; });
  {
    Tally tally(scenario.name, "one call fails");
    for (const int i : is_quick ? some(all, 5) : all)
      tally.count(at(run, i), [&] {
        run.fail_at(i, error_of(run.calls()[static_cast<std::size_t>(i)]),
                    /*persists=*/false);
        return true;
      });
  }
  Tally tally(scenario.name, "no space from there on");
  const auto changes = where(run.calls(), [](const Call& call) {
    return call.name == "write" || call.name == "mkdir" ||
           (call.changes && call.name.starts_with("open"));
  });
  for (const int i : some(changes, is_quick ? 3 : changes.size()))
    tally.count(at(run, i), [&] {
      run.fail_at(i, ENOSPC, /*persists=*/true);
      return true;
    });
}

void overtake_everywhere(ScenarioRun& run, const Scenario& scenario) {
  Tally tally(scenario.name, "overtaken");
  const auto& calls = run.calls();
  const auto lock =
      std::find_if(calls.begin(), calls.end(),
                   [](const Call& call) { return call.name == "flock"; });
  for (int i = 0; i <= lock - calls.begin(); ++i)
    tally.count(at(run, i), [&] {
      run.overtake_at(i);
      return true;
    });
}

// Folders of runs that were killed, to be resumed.
class Templates {
 public:
  explicit Templates(const fs::path& work) : work_(work) {}

  // Killed before the n-th call that `is_chosen`.
  fs::path killed(const RunKind& kind, const std::string& name, int n,
                  const std::function<bool(const Call&)>& is_chosen,
                  bool has_exchange) {
    const fs::path run = work_ / "run", place = work_ / name;
    remove_tree(run);
    int left = n;
    const Outcome outcome = run_traced(
        run,
        {.fail =
             [&](const Call& call, int) {
               if (is_chosen(call) && --left == 0) ::kill(call.process, 9);
               return call.name == "renameat2" && !has_exchange ? EINVAL : 0;
             }},
        [&] { return execute(kind, run, /*is_resumed=*/false); });
    if (outcome.code != 128 + 9) throw std::runtime_error("no " + name);
    remove_tree(place);
    fs::rename(run, place);
    return place;
  }

 private:
  fs::path work_;
};

bool publishes_checkpoint(const Call& call) {
  return call.name.starts_with("rename") &&
         call.path.find(".unfinished-step-") != call.path.npos &&
         call.other.find("/step-") != call.other.npos;
}

std::vector<Scenario> make_scenarios(const fs::path& work) {
  const auto& kinds = run_kinds();
  const RunKind &ordinary = kinds[0], &pretraining = kinds[1],
                &shards = kinds[2];
  Templates templates(work);
  const auto begun =
      templates.killed(ordinary, "begun", 4, publishes_checkpoint, true);
  // The third attempt follows a failed exchange and a rename to .old.
  const auto torn =
      templates.killed(pretraining, "torn", 3, publishes_checkpoint, false);
  const auto copy = [](const fs::path& from) {
    return [from](const fs::path& folder) { copy_folder(from, folder); };
  };
  const auto damaged = [begun](const fs::path& folder) {
    copy_folder(begun, folder);
    const fs::path latest = folder / "checkpoints" /
                            fs::read_symlink(folder / "checkpoints/latest");
    fs::resize_file(latest / "optimizer.pt", 100);
  };
  return {{"a new run", &ordinary},
          {"a resumed run", &ordinary, copy(begun)},
          {"resumed before a damaged checkpoint", &ordinary, damaged,
           /*has_exchange=*/true, /*may_have_bad=*/true},
          {"pre-training", &pretraining},
          {"pre-training, no exchange", &pretraining, nullptr,
           /*has_exchange=*/false},
          {"resumed in a replacement", &pretraining, copy(torn),
           /*has_exchange=*/false},
          {"shards", &shards}};
}

void run_scenario(const Scenario& scenario, const fs::path& work,
                  bool is_quick) {
  const auto start = std::chrono::steady_clock::now();
  ScenarioRun run(scenario, work);
  const auto changes =
      where(run.calls(), [](const Call& call) { return call.changes; });
  fmt::print("{}: {} calls, {} of them change something\n", scenario.name,
             run.calls().size(), changes.size());
  {
    Tally tally(scenario.name, "order of syncs");
    tally.count("the end", [&] {
      check_sync_order(run.calls());
      return true;
    });
  }
  kill_everywhere(run, scenario, is_quick);
  if (scenario.kind->ranks == 1) {
    fail_everywhere(run, scenario, is_quick);
    overtake_everywhere(run, scenario);
  }
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  fmt::print("{:.1f} s\n", seconds.count());
}

void fill_disk(const Options& options) {
  Tally tally("a full disk", "of each size");
  fill_disks(options.folder, options.is_quick ? 6 : 1000,
             [&](std::int64_t bytes, const std::function<void()>& trial) {
               tally.count(concat(bytes, " bytes"), [&] {
                 trial();
                 return true;
               });
             });
}

void kill_processes(const Options& options) {
  Tally tally("sheaf train -n 2", "killed");
  ProcessRuns runs(options.sheaf, options.folder);
  for (const int index : points(runs.calls(), options.is_quick ? 1 : 16))
    tally.count(concat("call ", index), [&] {
      runs.kill_at(index);
      return true;
    });
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick")
      options.is_quick = true;
    else if (word == "--only" && i + 1 < argc)
      options.only = argv[++i];
    else if (word == "--sheaf" && i + 1 < argc)
      options.sheaf = argv[++i];
    else
      options.folder = word;
  }
  return options;
}

bool is_chosen(const Options& options, const std::string& name) {
  return name.find(options.only) != name.npos;
}

int run(const Options& options) {
  if (!can_trace()) {
    fmt::print("skipped: this system does not let a process trace another\n");
    return 77;
  }
  const WorkFolder work(options.folder, "sheaf-crash-");
  Options inner = options;
  inner.folder = work.path();
  for (const Scenario& scenario : make_scenarios(work.path()))
    if (is_chosen(options, scenario.name))
      run_scenario(scenario, work.path(), options.is_quick);
  if (is_chosen(options, "full disk")) fill_disk(inner);
  if (!options.sheaf.empty() && is_chosen(options, "processes"))
    kill_processes(inner);
  fmt::print("{} trials, {} lost runs\n", Tally::total_trials,
             Tally::total_lost);
  return Tally::total_lost == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sheaf::crash

int main(int argc, char** argv) {
  sheaf::set_log_level(sheaf::LogLevel::kError);
  try {
    return sheaf::crash::run(sheaf::crash::parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crash_points: %s\n", error.what());
    return 1;
  }
}
