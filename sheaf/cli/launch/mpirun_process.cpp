#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/launch/job.hpp"

namespace sheaf::cli {
namespace {

[[noreturn]] void become_mpirun(const MpirunOptions& options, pid_t parent,
                                const Pipe& out, const Pipe& err) {
  if (!options.shares_group) ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  ::dup2(out.write.get(), STDOUT_FILENO);
  ::dup2(err.write.get(), STDERR_FILENO);
  for (const std::string& one : options.environment)
    ::putenv(const_cast<char*>(one.c_str()));
  exec_command(options.command);
  const std::string problem =
      fmt::format("sheaf run: cannot start '{}': {}\n", options.command[0],
                  ::strerrordesc_np(errno));
  write_all(STDERR_FILENO, problem);
  ::_exit(127);
}

std::string proc(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::vector<pid_t> children_of(pid_t pid) {
  std::ifstream in(proc(pid) + "/task/" + std::to_string(pid) + "/children");
  std::vector<pid_t> children;
  for (pid_t child; in >> child;) children.push_back(child);
  return children;
}

// Whether the first argument is "rank-exec". The command lines of mpirun, and
// of its child before exec, contain the word too, but further back.
bool is_wrapper(pid_t pid) {
  std::ifstream in(proc(pid) + "/cmdline");
  std::string word;
  std::getline(in, word, '\0');
  std::getline(in, word, '\0');
  return word == "rank-exec";
}

}  // namespace

MpirunProcess start_mpirun(const MpirunOptions& options,
                           const SignalQueue& signals) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    throw IoError(concat("cannot fork: ", ::strerrordesc_np(errno)));
  if (child == 0) {
    signals.restore_in_child();
    become_mpirun(options, parent, out, err);
  }
  for (const Fd* fd : {&out.read, &err.read})
    ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  return {child, std::move(out.read), std::move(err.read)};
}

std::vector<pid_t> wrappers_below(pid_t launcher) {
  std::vector<pid_t> wrappers;
  for (const pid_t child : children_of(launcher)) {
    if (is_wrapper(child)) {
      wrappers.push_back(child);
      continue;
    }
    const std::vector<pid_t> below = wrappers_below(child);
    wrappers.insert(wrappers.end(), below.begin(), below.end());
  }
  return wrappers;
}

}  // namespace sheaf::cli
