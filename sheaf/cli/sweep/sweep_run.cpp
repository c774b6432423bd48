#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/file_lock.hpp"
#include "sheaf/base/progress.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/cli/launch/process.hpp"
#include "sheaf/cli/sweep/sweep.hpp"
#include "sheaf/cli/sweep/sweep_record.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTickMs = 250;

struct ChildOptions {
  std::vector<std::string> command;
  // File to append standard output and error to; empty: inherit ours.
  std::filesystem::path log;
  std::function<void()> tick;  // if set, called every 250 ms or sooner
};

struct ChildEnd {
  int code = 0;         // 128 + n for signal n
  int stop_signal = 0;  // stop signal that was forwarded as SIGTERM; 0: none
};

Fd open_log(const std::filesystem::path& log) {
  if (log.empty()) return {};
  Fd fd(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.is_open())
    throw IoError(
        concat("cannot write ", log.string(), ": ", ::strerrordesc_np(errno)));
  return fd;
}

[[noreturn]] void become_child(const ChildOptions& options, pid_t parent,
                               const Fd& log) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  if (log.is_open()) {
    ::dup2(log.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
  }
  exec_command(options.command);
  const std::string problem = concat("cannot start ", options.command[0], ": ",
                                     ::strerrordesc_np(errno), "\n");
  write_all(STDERR_FILENO, problem);
  ::_exit(127);
}

pid_t start_child(const ChildOptions& options, const SignalQueue& signals) {
  const Fd log = open_log(options.log);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    throw IoError(concat("cannot fork: ", ::strerrordesc_np(errno)));
  if (child > 0) return child;
  signals.restore_in_child();
  become_child(options, parent, log);
}

// Runs the command and waits for it. The child leads its own process group, so
// Ctrl-C reaches it only through this process, as SIGTERM; a second Ctrl-C
// sends a second SIGTERM, which stops it at once. The child gets SIGTERM when
// this process dies. `signals` must contain SIGCHLD and the stop signals.
ChildEnd run_child(const ChildOptions& options, SignalQueue& signals) {
  const pid_t child = start_child(options, signals);
  ChildEnd end;
  for (int status = 0;;) {
    pollfd ready{signals.fd(), POLLIN, 0};
    ::poll(&ready, 1, options.tick ? kTickMs : -1);
    if (options.tick) options.tick();
    for (auto next = signals.next(); next.number; next = signals.next()) {
      if (next.number == SIGCHLD) continue;
      end.stop_signal = next.number;
      ::kill(child, SIGTERM);
    }
    if (::waitpid(child, &status, WNOHANG) != child) continue;
    end.code = code_of_wait_status(status);
    return end;
  }
}

// The last lines of a text file, at most `count`.
std::vector<std::string> last_lines(const std::filesystem::path& file,
                                    std::size_t count) {
  std::ifstream in(file);
  std::deque<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
    if (lines.size() > count) lines.pop_front();
  }
  return {lines.begin(), lines.end()};
}

constexpr const char* kLogName = "output.txt";
constexpr std::size_t kLogLines = 10;  // of a failed job

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string text_of_seconds(double seconds) {
  return format_duration(
      std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

std::size_t count_of(const SweepPlan& plan, JobState state) {
  return static_cast<std::size_t>(
      std::count_if(plan.jobs.begin(), plan.jobs.end(),
                    [&](const SweepJob& job) { return job.state == state; }));
}

class SweepRun {
 public:
  SweepRun(SweepPlan& plan, const SweepOptions& options)
      : plan_(plan),
        options_(options),
        lock_(lock_folder(plan.output)),
        record_(plan.output / "sweep.json"),
        signals_({SIGINT, SIGTERM, SIGHUP, SIGCHLD}),
        is_terminal_(progress_on_stderr().is_terminal) {}

  int run();

 private:
  void look_at_jobs();
  void run_job(std::size_t index);
  void prepare_folder(SweepJob& job);
  void move_aside(const SweepJob& job);
  ChildEnd train(std::size_t index);
  void draw(std::size_t index, Clock::time_point start);
  void conclude_job(std::size_t index, const ChildEnd& end, double seconds);
  bool has_finished(const SweepJob& job) const;
  void say(const std::string& line);
  int conclude();
  void report_failures() const;
  int make_report();

  SweepPlan& plan_;
  const SweepOptions& options_;
  Fd lock_;
  SweepRecord record_;
  SignalQueue signals_;
  const bool is_terminal_;
  Progress progress_;
  std::size_t finished_before_ = 0;
  std::vector<std::size_t> failed_;
  int stop_signal_ = 0;
};

int SweepRun::run() {
  look_at_jobs();
  for (std::size_t i = 0; i < plan_.jobs.size() && stop_signal_ == 0; ++i) {
    if (plan_.jobs[i].state != JobState::kFinished) run_job(i);
    if (!failed_.empty() && options_.stops_on_error) break;
  }
  progress_.clear();
  return conclude();
}

void SweepRun::look_at_jobs() {
  for (SweepJob& job : plan_.jobs) {
    JobRecord& record = record_.of(job);
    if (job.state == JobState::kFinished) record.state = "finished";
    if (job.state == JobState::kOther || job.state == JobState::kNew)
      record = {};
    record.ranks = job.ranks;
  }
  record_.save(plan_);
  finished_before_ = count_of(plan_, JobState::kFinished);
  if (finished_before_ > 0)
    say(fmt::format("{} of {} jobs were already finished", finished_before_,
                    plan_.jobs.size()));
  progress_.start_at(static_cast<double>(finished_before_) /
                     static_cast<double>(plan_.jobs.size()));
}

void SweepRun::say(const std::string& line) {
  progress_.clear();
  std::cout << line << std::endl;
}

void SweepRun::run_job(std::size_t index) {
  SweepJob& job = plan_.jobs[index];
  prepare_folder(job);
  if (!is_terminal_)
    say(fmt::format("job {} of {}: {}{}", index + 1, plan_.jobs.size(),
                    job.name,
                    job.state == JobState::kBegun ? ", resuming" : ""));
  JobRecord& record = record_.of(job);
  record.state = "running";
  ++record.attempts;
  record_.save(plan_);
  const auto start = Clock::now();
  const ChildEnd end = train(index);
  conclude_job(index, end, seconds_since(start));
}

void SweepRun::prepare_folder(SweepJob& job) {
  if (job.state == JobState::kOther) move_aside(job);
  std::error_code error;
  fs::create_directories(job.folder, error);
  if (error)
    throw IoError(concat("cannot create the folder ", job.folder.string(), ": ",
                         error.message()));
}

// Keeps a run with other settings, so that a change of the jobs file does not
// delete results.
void SweepRun::move_aside(const SweepJob& job) {
  const FileLock lock(job.folder / "run.lock");
  SHEAF_CHECK(lock.state() != FileLock::State::kHeldByOther, "the folder ",
              job.folder.string(), " is in use by a run with other settings (",
              lock.holder(),
              "); wait until it ends, or choose another folder with --output");
  const fs::path place = plan_.output / "replaced";
  fs::create_directories(place);
  int number = 1;
  const auto path = [&] {
    return place / fmt::format("{}-{}", job.name, number);
  };
  while (fs::exists(path())) ++number;
  fs::rename(job.folder, path());
  say(
      fmt::format("job {}: its folder held a run with other settings, which "
                  "was moved to {}",
                  job.name, path().string()));
}

ChildEnd SweepRun::train(std::size_t index) {
  const SweepJob& job = plan_.jobs[index];
  ChildOptions child;
  child.command = train_words(plan_, job);
  child.command.insert(child.command.begin(), this_executable());
  child.log = job.folder / kLogName;
  std::ofstream(child.log, std::ios::app)
      << "$ " << shell_quote(child.command) << "\n";
  const auto start = Clock::now();
  if (is_terminal_) child.tick = [=, this] { draw(index, start); };
  return run_child(child, signals_);
}

// The progress of the current job is estimated from the mean time of finished
// jobs.
void SweepRun::draw(std::size_t index, Clock::time_point start) {
  const double mean = record_.mean_seconds();
  const double part =
      mean > 0 ? std::min(seconds_since(start) / mean, 0.95) : 0;
  const double done = static_cast<double>(count_of(plan_, JobState::kFinished) +
                                          failed_.size());
  progress_.update((done + part) / static_cast<double>(plan_.jobs.size()),
                   fmt::format("job {} of {}  {}", index + 1, plan_.jobs.size(),
                               plan_.jobs[index].name));
}

// Reads the run's summary, because exit code 0 may also mean that the run was
// stopped.
bool SweepRun::has_finished(const SweepJob& job) const {
  std::ifstream in(job.folder / "summary.json");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return text.find("\"ending\": \"finished\"") != text.npos ||
         text.find("\"ending\": \"stopped early\"") != text.npos;
}

void SweepRun::conclude_job(std::size_t index, const ChildEnd& end,
                            double seconds) {
  SweepJob& job = plan_.jobs[index];
  JobRecord& record = record_.of(job);
  record.seconds += seconds;
  record.exit_code = end.code;
  stop_signal_ = end.stop_signal;
  if (end.code == 0 && has_finished(job)) {
    record.state = "finished";
    job.state = JobState::kFinished;
  } else {
    record.state = stop_signal_ != 0 ? "interrupted" : "failed";
    job.state = JobState::kBegun;
    if (stop_signal_ == 0) failed_.push_back(index);
  }
  record_.save(plan_);
  const std::string code =
      record.state == "failed" ? fmt::format(" with code {}", end.code) : "";
  say(fmt::format("job {} of {}: {} {}{} after {}", index + 1,
                  plan_.jobs.size(), job.name, record.state, code,
                  text_of_seconds(record.seconds)));
}

int SweepRun::conclude() {
  const std::size_t finished = count_of(plan_, JobState::kFinished);
  say(fmt::format(
      "{} of {} jobs finished{}", finished, plan_.jobs.size(),
      failed_.empty() ? "" : fmt::format(", {} failed", failed_.size())));
  if (!failed_.empty()) report_failures();
  if (finished < plan_.jobs.size()) say("to resume: " + options_.again);
  if (stop_signal_ != 0) return 128 + stop_signal_;
  const int code = finished > 0 ? make_report() : 0;
  return failed_.empty() ? code : 1;
}

void SweepRun::report_failures() const {
  for (const std::size_t index : failed_) {
    const SweepJob& job = plan_.jobs[index];
    const fs::path log = job.folder / kLogName;
    std::cerr << "sheaf sweep: job " << job.name << " failed; the end of "
              << log.string() << ":\n";
    for (const std::string& line : last_lines(log, kLogLines))
      std::cerr << "  " << line << "\n";
  }
  std::cerr << std::flush;
}

int SweepRun::make_report() {
  if (!options_.has_report) {
    say("no report was written: this sheaf has no command `report`");
    return 0;
  }
  ChildOptions child;
  child.command = {this_executable(), "report"};
  for (const SweepJob& job : plan_.jobs)
    if (job.state == JobState::kFinished)
      child.command.push_back(job.folder.string());
  const fs::path page = plan_.output / "report.html";
  child.command.insert(child.command.end(), {"-o", page.string()});
  const ChildEnd end = run_child(child, signals_);
  if (end.code != 0)
    std::cerr << "sheaf sweep: the report failed with code " << end.code
              << "; try: " << shell_quote(child.command) << std::endl;
  return end.code;
}

}  // namespace

int run_sweep(SweepPlan plan, const SweepOptions& options) {
  return SweepRun(plan, options).run();
}

}  // namespace sheaf::cli
