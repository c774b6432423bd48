// sheaf rank-exec: the process between mpirun and the program of a rank. It
// reports to the launcher how the program ended, and gives the other ranks time
// to notice a failure before mpirun kills them.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sheaf/base/failure_note.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/frame.hpp"
#include "sheaf/cli/launch/rank_child.hpp"
#include "sheaf/cli/launch/rank_report.hpp"

namespace sheaf::cli {
namespace {

struct WrapperOptions {
  std::vector<std::string> command;
  std::string token;   // token of the launcher's frames; empty: no launcher
  bool relay = false;  // send output in frames, for prefixed lines
  std::chrono::milliseconds grace{3000};
};

// From SIGTERM to SIGKILL.
constexpr std::chrono::milliseconds kKillRankAfter{2000};
// Between checks of the parent.
constexpr std::chrono::milliseconds kLookAfter{1000};

// The signal at the death of the parent. SIGTERM could come from any process;
// this one is sent only by the kernel.
int parent_signal() { return SIGRTMIN + 7; }

constexpr std::array kForwarded{SIGTERM, SIGINT,  SIGHUP,
                                SIGQUIT, SIGUSR1, SIGUSR2};

std::vector<int> watched_signals() {
  std::vector<int> signals(kForwarded.begin(), kForwarded.end());
  signals.insert(signals.end(), {SIGCHLD, parent_signal()});
  return signals;
}

// The rank that the MPI launcher or Slurm assigned to this process; 0 if there
// is none.
int rank_from_environment() {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name))
      return parse_count(value).value_or(0);
  return 0;
}

class Wrapper {
 public:
  explicit Wrapper(const WrapperOptions& options)
      : options_(options),
        rank_(rank_from_environment()),
        parent_(::getppid()),
        writer_(options.token, rank_),
        signals_(watched_signals()) {
    ::prctl(PR_SET_PDEATHSIG, parent_signal());
    ::signal(SIGPIPE, SIG_IGN);
    notes_.export_place();
  }

  ~Wrapper() {
    // The exit code is fixed: a late signal must not change it.
    for (const int signal : kForwarded) ::signal(signal, SIG_IGN);
  }

  int run() {
    RankChild child({.command = options_.command,
                     .relay = options_.relay,
                     // MPICH never closes the input of the other ranks.
                     .has_input = rank_ == 0},
                    signals_);
    while (!child.has_ended()) step(child);
    child.signal_group(SIGKILL);  // processes that the program left running
    while (options_.relay && relay_rest(child)) {
    }
    const RankReport report = make_report(child);
    send_report(report);
    // A program that exits with 0 after losing peers does not finalize MPI,
    // which mpirun treats as a crash.
    const bool has_waiting_peers = report.is_failure() || notes_.last();
    return has_waiting_peers ? wait_for_grace(report) : report.code;
  }

 private:
  void step(RankChild& child);
  void wait(std::span<pollfd> ready, bool can_send) const;
  void handle_signal(RankChild& child, int signal);
  void relay(Fd& from, FrameKind kind);
  bool relay_rest(RankChild& child);
  RankReport make_report(RankChild& child) const;
  void send_report(const RankReport& report) const;
  int wait_for_grace(const RankReport& report);
  bool has_parent() const { return ::getppid() == parent_; }

  const WrapperOptions& options_;
  const int rank_;
  const pid_t parent_;
  const FrameWriter writer_;
  SignalQueue signals_;
  const FailureNotes notes_;
  bool was_asked_ = false;
  Clock::time_point kill_at_ = Clock::time_point::max();
};

// There is no event for "the pipe is drained", so it is polled at short
// intervals.
void Wrapper::wait(std::span<pollfd> ready, bool can_send) const {
  const auto end = std::min(kill_at_, Clock::now() + kLookAfter);
  const timespec brief{
      0, std::chrono::nanoseconds(FrameWriter::kDrainStep).count()};
  if (can_send)
    ::poll(ready.data(), ready.size(), poll_timeout_ms(end));
  else
    ::ppoll(ready.data(), ready.size(), &brief, nullptr);
}

void Wrapper::step(RankChild& child) {
  const bool can_send = !options_.relay || writer_.is_drained();
  std::array<pollfd, 3> ready{{{signals_.fd(), POLLIN, 0},
                               {can_send ? child.out().get() : -1, POLLIN, 0},
                               {can_send ? child.err().get() : -1, POLLIN, 0}}};
  wait(ready, can_send);
  while (const int signal = signals_.next().number)
    handle_signal(child, signal);
  if (!has_parent() || Clock::now() >= kill_at_) child.signal_group(SIGKILL);
  if (ready[1].revents) relay(child.out(), FrameKind::kOutput);
  if (ready[2].revents && writer_.is_drained())
    relay(child.err(), FrameKind::kError);
}

void Wrapper::handle_signal(RankChild& child, int signal) {
  if (signal == SIGCHLD || signal == parent_signal()) return;
  child.signal_group(signal);
  if (signal == SIGUSR1 || signal == SIGUSR2) return;
  was_asked_ = true;
  kill_at_ = std::min(kill_at_, Clock::now() + kKillRankAfter);
}

void Wrapper::relay(Fd& from, FrameKind kind) {
  const std::string bytes = read_some(from, kMaxPayloadBytes);
  if (!bytes.empty()) writer_.send(kind, bytes);
}

// Forwards a piece of the output left in the pipes. Returns false if they are
// empty; it does not wait for end of file, because a process that left the
// group may keep them open forever.
bool Wrapper::relay_rest(RankChild& child) {
  std::array<pollfd, 2> ready{
      {{child.out().get(), POLLIN, 0}, {child.err().get(), POLLIN, 0}}};
  if (::poll(ready.data(), ready.size(), 0) <= 0 || !has_parent()) return false;
  if (!writer_.is_drained())
    std::this_thread::sleep_for(FrameWriter::kDrainStep);
  else if (ready[0].revents)
    relay(child.out(), FrameKind::kOutput);
  else
    relay(child.err(), FrameKind::kError);
  return true;
}

std::int64_t wall_clock_ns() {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

RankReport Wrapper::make_report(RankChild& child) const {
  RankReport report;
  report.rank = rank_;
  report.host = host_name();
  report.pid = child.pid();
  report.was_asked = was_asked_;
  // Taken before the child is reaped: then other ranks can notice its end and
  // fail because of it.
  report.time_ns = wall_clock_ns();
  const int status = child.reap();
  report.code = code_of_wait_status(status);
  report.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (const auto note = notes_.last(); note && report.code != 0) {
    report.is_consequence = note->cause == FailureCause::kOther;
    report.error = note->text;
    // The program failed by itself before it was asked to stop.
    if (!report.is_consequence) report.was_asked = false;
  }
  if (child.start_errno() != 0) {
    report.start_error = "could not start '" + options_.command[0] +
                         "': " + ::strerrordesc_np(child.start_errno());
    report.code = child.start_errno() == ENOENT ? 127 : 126;
  }
  return report;
}

void Wrapper::send_report(const RankReport& report) const {
  if (options_.token.empty()) {
    if (report.is_failure())
      write_all(STDERR_FILENO, "sheaf run: " + describe(report) + "\n");
    return;
  }
  writer_.send_last(FrameKind::kReport, encode_report(report));
}

int Wrapper::wait_for_grace(const RankReport& report) {
  const auto end = Clock::now() + options_.grace;
  while (has_parent() && Clock::now() < end) {
    pollfd ready{signals_.fd(), POLLIN, 0};
    ::poll(&ready, 1,
           poll_timeout_ms(std::min(end, Clock::now() + kLookAfter)));
    while (const int signal = signals_.next().number) {
      if (signal == SIGUSR1) return 0;
      if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP)
        return report.code;
    }
  }
  send_report(report);  // again, in case the first one was damaged
  return report.code;
}

// Sets OMP_NUM_THREADS to each rank's share of the host's cores, unless it is
// set. By default libraries would start one thread per core in each rank.
void share_cores() {
  int ranks = 0;
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"})
    if (const char* value = std::getenv(name))
      ranks = parse_count(value).value_or(0);
  if (ranks < 2) return;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  ::setenv("OMP_NUM_THREADS",
           std::to_string(std::max(1, cores / ranks)).c_str(),
           /*replace=*/0);
}

// Runs the command and returns the exit code for this process. SIGTERM, SIGINT,
// SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded to the program and the
// processes it started. After a failure it waits for the grace period before
// it returns. SIGUSR1 ends the wait; the result is then 0, because the launcher
// has received the report. When the parent dies, the program is killed.
int run_wrapper(const WrapperOptions& options) {
  share_cores();
  choose_openblas_kernels();
  return Wrapper(options).run();
}

struct RankExecArguments {
  WrapperOptions options;
  int grace_ms = 3000;
};

}  // namespace

void add_rank_exec_command(CLI::App& app) {
  auto arguments = std::make_shared<RankExecArguments>();
  CLI::App* command = app.add_subcommand(
      "rank-exec", "Run the program of one rank; `sheaf run` starts it");
  command->group("");  // internal command: hidden from the help
  command->prefix_command();
  command->add_option("--token", arguments->options.token);
  command->add_option("--grace-ms", arguments->grace_ms);
  command->add_flag("--relay", arguments->options.relay);
  command->callback([arguments, command] {
    arguments->options.command = program_of(*command);
    arguments->options.grace = std::chrono::milliseconds(arguments->grace_ms);
    throw ExitWith{run_wrapper(arguments->options)};
  });
}

}  // namespace sheaf::cli
