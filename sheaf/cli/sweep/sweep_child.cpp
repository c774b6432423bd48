#include "sheaf/cli/sweep/sweep_child.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <fstream>

#include "sheaf/base/error.hpp"

namespace sheaf::cli {
namespace {

constexpr int kTickMs = 250;

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

}  // namespace

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

}  // namespace sheaf::cli
