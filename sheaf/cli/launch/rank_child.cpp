#include "sheaf/cli/launch/rank_child.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sheaf/base/error.hpp"

namespace sheaf::cli {
namespace {

[[noreturn]] void guard_group(int line) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "sheaf-guard");
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  // The guard keeps only the line open: mpirun waits until all other
  // descriptors are closed.
  ::dup2(line, STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, ~0u, 0);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGKILL);  // the group, with us
  ::_exit(0);
}

struct ChildSetup {
  pid_t parent;
  pid_t group;
  int out = -1;  // -1: inherit the wrapper's
  int err = -1;
  int problem;  // receives errno if exec fails
};

[[noreturn]] void become_program(const RankChildOptions& options,
                                 const ChildSetup& setup,
                                 const SignalQueue& signals) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != setup.parent) ::_exit(128 + SIGKILL);
  ::setpgid(0, setup.group);
  if (!options.has_input)
    ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  if (setup.out >= 0) ::dup2(setup.out, STDOUT_FILENO);
  if (setup.err >= 0) ::dup2(setup.err, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  signals.restore_in_child();
  exec_command(options.command);
  const int problem = errno;
  write_all(setup.problem,
            {reinterpret_cast<const char*>(&problem), sizeof problem});
  ::_exit(127);
}

int read_errno(Fd& line) {
  int problem = 0;
  const std::string bytes = read_some(line, sizeof problem);
  if (bytes.size() == sizeof problem)
    bytes.copy(reinterpret_cast<char*>(&problem), sizeof problem);
  return problem;
}

}  // namespace

RankChild::RankChild(const RankChildOptions& options,
                     const SignalQueue& signals) {
  start_guard();
  start_program(options, signals);
}

// The write end of the line is held by the wrapper and, until exec, by the
// program. So the guard also kills a program whose wrapper dies while the
// program starts.
void RankChild::start_guard() {
  Pipe line = make_pipe();
  guard_ = ::fork();
  if (guard_ < 0)
    throw IoError(concat("cannot fork: ", ::strerrordesc_np(errno)));
  if (guard_ == 0) guard_group(line.read.get());
  ::setpgid(guard_, guard_);  // the guard does it too: either may come first
  guard_line_ = std::move(line.write);
}

void RankChild::start_program(const RankChildOptions& options,
                              const SignalQueue& signals) {
  Pipe problem = make_pipe();
  Pipe out, err;
  if (options.relay) {
    out = make_pipe();
    err = make_pipe();
  }
  const ChildSetup setup{::getpid(), guard_, out.write.get(), err.write.get(),
                         problem.write.get()};
  pid_ = ::fork();
  if (pid_ < 0)
    throw IoError(concat("cannot fork: ", ::strerrordesc_np(errno)));
  if (pid_ == 0) become_program(options, setup, signals);
  ::setpgid(pid_, guard_);
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  for (const Fd* fd : {&out_, &err_})
    if (fd->is_open()) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  problem.write.reset();
  start_errno_ = read_errno(problem.read);
}

bool RankChild::has_ended() const {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return info.si_pid == pid_;
}

void RankChild::signal_group(int signal) const { ::kill(-guard_, signal); }

int RankChild::reap() {
  signal_group(SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  is_reaped_ = true;
  return status;
}

RankChild::~RankChild() {
  if (!is_reaped_) reap();
  ::waitpid(guard_, nullptr, 0);
}

}  // namespace sheaf::cli
