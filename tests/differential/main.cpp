// Runs random cases with Sheaf's strategies and compares them with one plain
// process; see docs/howto/testing.md.

#include <ATen/Parallel.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iostream>

#include "compare.hpp"
#include "generate.hpp"
#include "processes.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/world.hpp"
#include "shrink.hpp"
#include "tally.hpp"
#include "tests/base/temporary_folder.hpp"
#include "watchdog.hpp"

namespace differential {
namespace {

struct Options {
  std::int64_t cases = 300;
  std::uint64_t seed = 1;
  double seconds = 0;
  std::string one_case;
  std::string file;   // file of cases
  std::string table;  // file for the counts of features and pairs
  std::string ranks_as = "threads";
  std::vector<std::string> strategies, only, without;
  std::string device = "cpu";
  int ranks = 0;
  int failures = 1;
  bool no_shrink = false;
  bool is_verbose = false;
};

class Run {
 public:
  // `processes`: null if ranks are threads.
  Run(const Options& options, const Processes* processes)
      : options_(options), processes_(processes) {
    wishes_.strategies = {options.strategies.begin(), options.strategies.end()};
    wishes_.only = {options.only.begin(), options.only.end()};
    wishes_.without = {options.without.begin(), options.without.end()};
    wishes_.ranks = processes ? processes->size() : options.ranks;
    wishes_.is_cuda = options.device == "cuda";
  }

  int run() {
    if (!options_.one_case.empty()) return run_one();
    if (!options_.file.empty()) return run_file();
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                           start)
          .count();
    };
    for (std::uint64_t seed = options_.seed; !is_done(); ++seed) {
      const bool is_over = options_.seconds > 0 && seconds() > options_.seconds;
      if (processes_ ? processes_->agree(is_over) : is_over) break;
      take(seed);
    }
    return report(seconds());
  }

 private:
  // Cases that libtorch itself does not support are not counted.
  bool is_done() const {
    return tally_.done() >= options_.cases ||
           tally_.wrong() >= options_.failures ||
           tally_.has_too_many_bad(options_.cases);
  }

  Finding watched(const Case& one) {
    const Watchdog watchdog(text_of(one));
    return processes_ ? processes_->check(one) : check(one);
  }

  void take(std::uint64_t seed) {
    const Case one = generate(seed, wishes_);
    if (options_.is_verbose && is_printing())
      std::cout << "seed " << seed << ": " << text_of(one) << std::endl;
    const Finding finding = watched(one);
    tally_.add(one, finding);
    if (finding.verdict == Verdict::kWrong) show_failure(seed, one, finding);
  }

  void show_failure(std::uint64_t seed, const Case& one,
                    const Finding& finding) {
    if (!is_printing()) return;
    std::cout << "seed " << seed << " fails: " << finding.reason
              << "\n  case: " << text_of(one) << std::endl;
    if (options_.no_shrink || processes_) return;
    std::string reason = finding.reason;
    const auto fails = [&](const Case& smaller) {
      const Finding found = watched(smaller);
      if (found.verdict == Verdict::kWrong) reason = found.reason;
      return found.verdict == Verdict::kWrong;
    };
    const Case smallest = shrink(one, fails, /*seconds=*/30);
    std::cout << "  smallest: " << text_of(smallest) << "\n  there: " << reason
              << std::endl;
  }

  // Runs a seed or the text of a case.
  int run_one() {
    const bool is_seed =
        options_.one_case.find_first_not_of("0123456789") == std::string::npos;
    const Case one = is_seed ? generate(std::stoull(options_.one_case), wishes_)
                             : parse_case(options_.one_case);
    std::cout << text_of(one) << '\n';
    const Finding finding = watched(one);
    constexpr const char* kNames[] = {"the same", "an error", "wrong",
                                      "cannot be run"};
    std::cout << kNames[static_cast<int>(finding.verdict)] << " "
              << finding.reason
              << (finding.has_open ? "but for tensors that cannot be compared"
                                   : "")
              << std::endl;
    return finding.verdict == Verdict::kSame ? 0 : 1;
  }

  // Runs cases that failed once, one per line.
  int run_file() {
    std::ifstream file(options_.file);
    int count = 0;
    int wrong = 0;
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      const Case one = parse_case(line);
      const Finding finding = watched(one);
      ++count;
      if (finding.verdict == Verdict::kSame ||
          finding.verdict == Verdict::kError)
        continue;
      ++wrong;
      std::cout << line << "\n  " << finding.reason << std::endl;
    }
    std::cout << count << " cases, " << wrong << " wrong\n";
    return count > 0 && wrong == 0 ? 0 : 1;
  }

  bool is_printing() const { return !processes_ || processes_->is_first(); }

  int report(double seconds) {
    const std::string failures = tally_.failures();
    if (!is_printing()) return failures.empty() ? 0 : 1;
    tally_.print(std::cout, seconds);
    if (!options_.table.empty()) {
      std::ofstream file(options_.table);
      tally_.coverage().print_features(file);
      tally_.coverage().print_pairs(file);
    }
    std::cout << failures;
    return failures.empty() ? 0 : 1;
  }

  Options options_;
  const Processes* processes_;
  Wishes wishes_;
  Tally tally_;
};

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("compares random training runs with one plain process");
  app.add_option("--cases", options.cases, "number of cases");
  app.add_option("--seed", options.seed,
                 "seed of the first case, incremented for each case");
  app.add_option("--seconds", options.seconds, "stop after this time");
  app.add_option("--case", options.one_case, "one case: its seed, or its text");
  app.add_option("--file", options.file, "file of cases, one per line")
      ->check(CLI::ExistingFile);
  app.add_option("--strategy", options.strategies, "only these strategies")
      ->delimiter(',');
  app.add_option("--only", options.only, "features that cases must have")
      ->delimiter(',');
  app.add_option("--without", options.without, "features they must not have")
      ->delimiter(',');
  app.add_option("--ranks", options.ranks, "ranks of each case");
  app.add_option("--ranks-as", options.ranks_as,
                 "threads, or processes started by sheaf run")
      ->check(CLI::IsMember({"threads", "processes"}));
  app.add_option("--device", options.device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--failures", options.failures, "stop after N failures");
  app.add_option("--table", options.table,
                 "write counts of generated features and pairs");
  app.add_flag("--no-shrink", options.no_shrink, "do not reduce failed cases");
  app.add_flag("--verbose", options.is_verbose, "print each case");
  CLI11_PARSE(app, argc, argv);
  if (options.device == "cuda" && options.ranks_as == "threads" &&
      options.ranks != 1) {
    std::cerr << "ranks that are threads cannot share a GPU: libtorch computes "
                 "backward() of all of them in one thread; start with sheaf "
                 "run and --ranks-as processes, or give --ranks 1\n";
    return 2;
  }
  at::set_num_threads(1);
  // Groups that fail leave files behind.
  const sheaf::TemporaryFolder folder;
  setenv("SHEAF_DUMP_DIR", folder.path().c_str(), 1);
  sheaf::set_log_level(sheaf::LogLevel::kOff);
  if (options.ranks_as == "threads") return Run(options, nullptr).run();
  sheaf::topo::Options limits;
  limits.timeout_ms = Processes::kTimeoutMs;
  const auto world = sheaf::comm::init(limits);
  const Processes processes(world.group());
  return Run(options, &processes).run();
}

}  // namespace
}  // namespace differential

int main(int argc, char** argv) { return differential::main_of(argc, argv); }
