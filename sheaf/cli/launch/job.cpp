#include "sheaf/cli/launch/job.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/cli/launch/job_output.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kKillAfter{8000};  // from our SIGTERM to SIGKILL
constexpr std::size_t kReadBytes = 64 << 10;

class Job {
 public:
  explicit Job(const JobOptions& options)
      : options_(options),
        // To read from a terminal, mpirun must be in our process group. Then it
        // receives Ctrl-C directly, and Ctrl-Z works. If ranks have time to
        // stop by themselves, Ctrl-C must not stop mpirun first.
        shares_group_(::isatty(STDIN_FILENO) == 1 && !options.stop_time),
        signals_({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}),
        output_(options.token,
                [this](const RankReport& report) { take_report(report); }) {}

  int run() {
    start();
    while (!has_ended_) step();
    for (Fd* pipe :
         {&mpirun_.out, &mpirun_.err})  // output that mpirun left in the pipes
      while (pipe->is_open() && pass_on(*pipe)) {
      }
    output_.finish();
    return conclude();
  }

 private:
  void start();
  void step();
  bool pass_on(Fd& pipe);
  void handle_signal(const SignalQueue::Signal& signal);
  void signal_ranks(int signal);
  void take_report(const RankReport& report);
  void finish_early();
  void end_by(Clock::time_point deadline) {
    end_at_ = std::min(end_at_, deadline);
  }
  void check_deadlines();
  void end_now();
  int conclude();

  const JobOptions& options_;
  const bool shares_group_;
  SignalQueue signals_;
  JobOutput output_;
  ReportBook reports_;
  MpirunProcess mpirun_;
  bool has_ended_ = false;
  int status_ = 0;
  int stop_signal_ = 0;  // first stop signal received; 0: none
  bool is_timed_out_ = false;
  bool is_ending_ = false;  // mpirun has received a stop signal
  Clock::time_point timeout_at_ = Clock::time_point::max();
  Clock::time_point end_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
};

void Job::start() {
  mpirun_ = start_mpirun({.command = options_.command,
                          .environment = options_.environment,
                          .shares_group = shares_group_},
                         signals_);
  if (options_.timeout) timeout_at_ = Clock::now() + *options_.timeout;
}

void Job::step() {
  std::array<pollfd, 3> ready{{{signals_.fd(), POLLIN, 0},
                               {mpirun_.out.get(), POLLIN, 0},
                               {mpirun_.err.get(), POLLIN, 0}}};
  const auto next = std::min({timeout_at_, end_at_, kill_at_});
  const bool is_endless = next == Clock::time_point::max();
  ::poll(ready.data(), ready.size(), is_endless ? -1 : poll_timeout_ms(next));
  if (ready[1].revents) pass_on(mpirun_.out);
  if (ready[2].revents) pass_on(mpirun_.err);
  for (auto signal = signals_.next(); signal.number; signal = signals_.next())
    handle_signal(signal);
  check_deadlines();
}

bool Job::pass_on(Fd& pipe) {
  const bool is_output = &pipe == &mpirun_.out;
  const std::string bytes = read_some(pipe, kReadBytes);
  if (is_output)
    output_.feed_output(bytes);
  else
    output_.feed_error(bytes);
  return !bytes.empty();
}

void Job::handle_signal(const SignalQueue::Signal& signal) {
  if (signal.number == SIGCHLD) {
    has_ended_ = ::waitpid(mpirun_.pid, &status_, WNOHANG) == mpirun_.pid;
  } else if (signal.number == SIGUSR1 || signal.number == SIGUSR2) {
    signal_ranks(signal.number);
  } else if (stop_signal_ != 0) {
    kill_at_ = Clock::now();  // a second stop signal kills at once
  } else if (options_.stop_time) {
    stop_signal_ = signal.number;
    signal_ranks(SIGUSR1);
    end_by(Clock::now() + *options_.stop_time);
  } else {
    stop_signal_ = signal.number;
    // On a second signal mpirun would exit at once and leave ranks behind.
    const bool has_it = shares_group_ && signal.is_from_kernel;
    if (has_it) is_ending_ = true;
    kill_at_ = Clock::now() + kKillAfter;
    end_by(Clock::now());
  }
}

// Signals the wrappers directly if they run on this host. mpirun is only used
// otherwise: Open MPI's prints a message among the program's output, and some
// packaged versions (4.1.6) drop the signal.
void Job::signal_ranks(int signal) {
  const std::vector<pid_t> wrappers =
      options_.is_local ? wrappers_below(mpirun_.pid) : std::vector<pid_t>{};
  for (const pid_t wrapper : wrappers) ::kill(wrapper, signal);
  if (wrappers.empty()) ::kill(mpirun_.pid, signal);
}

void Job::take_report(const RankReport& report) {
  if (!reports_.add(report)) return;
  if (report.is_failure() && stop_signal_ == 0 && !is_timed_out_) {
    output_.say(describe(report));
    end_by(Clock::now() + options_.grace);
  }
  if (reports_.count() == options_.ranks) finish_early();
}

// All ranks have ended and their output is here or in the pipe. Messages of
// mpirun would only repeat ours, so they are muted.
void Job::finish_early() {
  const bool is_mpich = options_.mpi == MpiKind::kMpich;
  if (is_mpich) {
    while (mpirun_.out.is_open() && pass_on(mpirun_.out)) {
    }
  }
  output_.mute({.output = is_mpich, .error = true});
  if (!reports_.has_failure() || is_ending_) return;
  // Wrappers in their grace period need not wait: all ranks have ended. Open
  // MPI would take a second to forward SIGTERM; MPICH would report wrappers
  // that exit after SIGUSR1 as crashed.
  if (is_mpich)
    ::kill(mpirun_.pid, SIGTERM);
  else
    signal_ranks(SIGUSR1);
}

void Job::check_deadlines() {
  const auto now = Clock::now();
  if (now >= timeout_at_) {
    is_timed_out_ = true;
    timeout_at_ = Clock::time_point::max();
    end_by(now);
  }
  if (now >= end_at_) end_now();
  if (now >= kill_at_) {
    // The wrappers notice that mpirun is gone and kill their programs.
    ::kill(mpirun_.pid, SIGKILL);
    kill_at_ = Clock::time_point::max();
  }
}

void Job::end_now() {
  end_at_ = Clock::time_point::max();
  if (is_ending_) return;
  is_ending_ = true;
  kill_at_ = std::min(kill_at_, Clock::now() + kKillAfter);
  ::kill(mpirun_.pid, SIGTERM);
}

int Job::conclude() {
  if (stop_signal_ != 0) return 128 + stop_signal_;
  if (is_timed_out_)
    throw TimeoutError(concat("timed out after ",
                              format_duration(*options_.timeout),
                              "; the ranks were stopped; allow more time with "
                              "--timeout"));
  if (const RankReport* first = reports_.first_failure()) {
    // The program has already printed a usage error (code 2).
    const bool repeats = !first->error.empty() && first->code != 2;
    output_.say(fmt::format("rank {} failed first; exit code {}{}{}",
                            first->rank, first->code, repeats ? ": " : "",
                            repeats ? first->error : std::string()));
    return first->code;
  }
  const std::string name =
      std::filesystem::path(options_.command[0]).filename().string();
  if (const int code = code_of_wait_status(status_)) {
    output_.say(fmt::format("{} exited with code {}", name, code));
    return code;
  }
  const RankReport* asked = reports_.first_asked();
  return asked ? asked->code : 0;
}

}  // namespace

int run_job(const JobOptions& options) { return Job(options).run(); }

}  // namespace sheaf::cli
