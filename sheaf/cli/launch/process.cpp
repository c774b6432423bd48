#include "sheaf/cli/launch/process.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"

namespace sheaf::cli {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() { return std::exchange(fd_, -1); }

void Fd::reset() {
  if (is_open()) ::close(release());
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw IoError(concat("cannot create a pipe: ", ::strerrordesc_np(errno)));
  return {Fd(ends[0]), Fd(ends[1])};
}

SignalQueue::SignalQueue(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, &before_);
  fd_ = Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  SHEAF_ASSERT(fd_.is_open(), "signalfd: errno ", errno);
}

SignalQueue::~SignalQueue() { restore_in_child(); }

SignalQueue::Signal SignalQueue::next() {
  signalfd_siginfo info;
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return {};
  return {static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

void SignalQueue::restore_in_child() const {
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void exec_command(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::string read_some(Fd& fd, std::size_t limit) {
  std::string bytes(limit, '\0');
  const ssize_t count = ::read(fd.get(), bytes.data(), limit);
  const bool is_later = count < 0 && (errno == EAGAIN || errno == EINTR);
  if (count <= 0 && !is_later) fd.reset();
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

int poll_timeout_ms(Clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<long long>(left.count(), 0, 1 << 30));
}

int code_of_wait_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string shell_quote(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) {
    if (!text.empty()) text += ' ';
    const bool is_plain =
        !word.empty() && word.find_first_not_of(
                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                             "WXYZ0123456789_-+=:,./@%") == std::string::npos;
    if (is_plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word)
      text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

namespace {

namespace fs = std::filesystem;

bool is_executable(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) &&
         ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_executable(const std::string& program) {
  if (program.empty()) return "";
  if (program.find('/') != std::string::npos)
    return is_executable(program) ? program : "";
  const char* variable = std::getenv("PATH");
  std::string path = variable ? variable : "/usr/bin:/bin";
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    std::string file = path.substr(start, end - start) + "/" + program;
    if (is_executable(file)) return file;
    start = end + 1;
  }
  return "";
}

void check_executable(const std::string& program) {
  if (!find_executable(program).empty()) return;
  std::error_code ignored;
  const bool has_slash = program.find('/') != std::string::npos;
  SHEAF_CHECK(!fs::is_directory(program, ignored) || !has_slash, "'", program,
              "' is a directory, not a program");
  SHEAF_CHECK(!fs::exists(program, ignored) || !has_slash, "'", program,
              "' is not executable; try chmod +x ", program);
  SHEAF_CHECK(has_slash || !is_executable("./" + program), "there is no '",
              program, "' on PATH; for the one in this directory write ./",
              program);
  throw UsageError(concat("there is no program '", program, "'",
                          has_slash ? "" : " on PATH"));
}

std::string this_executable() {
  return fs::read_symlink("/proc/self/exe").string();
}

std::string torch_program() {
  const fs::path here = this_executable();
  std::string program = (here.parent_path() / "sheaf-torch").string();
  SHEAF_CHECK(!find_executable(program).empty(), "there is no ", program,
              ": this sheaf was built without libtorch; install libtorch and "
              "build with -DSHEAF_WITH_TORCH=ON");
  return program;
}

void become_torch_program(const std::vector<std::string>& words) {
  std::vector<std::string> command{torch_program()};
  command.insert(command.end(), words.begin(), words.end());
  choose_openblas_kernels();
  exec_command(command);
  throw IoError(
      concat("cannot start ", command[0], ": ", std::strerror(errno)));
}

}  // namespace sheaf::cli
