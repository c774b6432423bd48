#include "tests/crash/injector.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "sheaf/base/error.hpp"
#include "tests/crash/calls.hpp"

namespace sheaf::crash {
namespace {

namespace fs = std::filesystem;

constexpr int kMostSeconds = 120;
constexpr int kNoTracing = 250;  // exit code of a child that cannot be traced

std::runtime_error failure(const std::string& what) {
  return std::runtime_error(concat(what, ": ", ::strerror(errno)));
}

// A file without a name that collects a child's output.
class Output {
 public:
  Output() : file_(::tmpfile()) {
    if (!file_) throw failure("tmpfile");
  }
  ~Output() { ::fclose(file_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void become_standard() const {
    ::dup2(::fileno(file_), STDOUT_FILENO);
    ::dup2(::fileno(file_), STDERR_FILENO);
  }
  std::string text() const {
    ::rewind(file_);
    std::string text;
    for (int byte; (byte = ::fgetc(file_)) != EOF;)
      text += static_cast<char>(byte);
    return text;
  }

 private:
  FILE* file_;
};

[[noreturn]] void become_child(const Output& output,
                               const std::function<int()>& body) {
  output.become_standard();
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& error) {
    code = exit_code(error);
    ::fprintf(stderr, "%s\n", error.what());
  }
  ::fflush(nullptr);
  ::_exit(code);
}

// Reports the calls of call_forms() to the tracer.
bool install_filter() {
  std::vector<sock_filter> code{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const CallForm& form : call_forms()) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                            static_cast<std::uint32_t>(form.number), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(code.size()),
                           code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

std::string text_at(pid_t process, std::uint64_t address) {
  std::string text;
  char block[256];
  for (;; address += sizeof block) {
    const iovec local{block, sizeof block};
    // A block may reach into a page that is not mapped.
    const std::uint64_t rest = 4096 - address % 4096;
    const iovec remote{reinterpret_cast<void*>(address),
                       std::min<std::size_t>(sizeof block, rest)};
    const ssize_t count = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (count <= 0) return text;
    const std::size_t length =
        ::strnlen(block, static_cast<std::size_t>(count));
    text.append(block, length);
    if (length < static_cast<std::size_t>(count)) return text;
    address -= sizeof block - static_cast<std::size_t>(count);
  }
}

std::string path_of_fd(pid_t process, int fd) {
  std::error_code none;
  return fs::read_symlink(concat("/proc/", process, "/fd/", fd), none);
}

int process_of(pid_t thread) {
  std::ifstream in(concat("/proc/", thread, "/status"));
  for (std::string word; in >> word;)
    if (word == "Tgid:" && in >> word) return std::stoi(word);
  return thread;
}

class Arguments {
 public:
  Arguments(pid_t thread, const user_regs_struct& registers)
      : thread_(thread), values_{registers.rdi, registers.rsi, registers.rdx,
                                 registers.r10, registers.r8,  registers.r9} {}

  std::uint64_t value(int index) const { return values_[index]; }
  std::string path(int index, int folder) const {
    if (index < 0) return "";
    const fs::path path = text_at(thread_, value(index));
    if (path.is_absolute()) return path;
    const int fd = folder < 0 ? AT_FDCWD : static_cast<int>(value(folder));
    std::error_code none;
    const fs::path base =
        fd == AT_FDCWD
            ? fs::read_symlink(concat("/proc/", thread_, "/cwd"), none)
            : fs::path(path_of_fd(thread_, fd));
    return path.empty() ? base : base / path;
  }
  std::string fd_path(int index) const {
    return path_of_fd(thread_, static_cast<int>(value(index)));
  }

 private:
  pid_t thread_;
  std::uint64_t values_[6];
};

const CallForm* form_of(long number) {
  for (const CallForm& form : call_forms())
    if (form.number == number) return &form;
  return nullptr;
}

Call call_of(const CallForm& form, const Arguments& arguments) {
  Call call;
  call.name = form.name;
  call.path = form.fd >= 0 ? arguments.fd_path(form.fd)
                           : arguments.path(form.path, form.folder);
  call.other = arguments.path(form.other, form.other_folder);
  call.changes =
      form.changes ||
      (form.flags >= 0 && (arguments.value(form.flags) & (O_CREAT | O_TRUNC)));
  return call;
}

void on_alarm(int) {}

// waitpid() returns with EINTR when the time is over.
class Alarm {
 public:
  Alarm() {
    struct sigaction action = {};
    action.sa_handler = on_alarm;
    ::sigaction(SIGALRM, &action, nullptr);
    ::alarm(kMostSeconds);
  }
  ~Alarm() { ::alarm(0); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
};

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class Tracer {
 public:
  Tracer(const fs::path& folder, const Injection& injection, pid_t child)
      : folder_(folder.string()), injection_(injection), child_(child) {}

  Outcome run();

 private:
  bool begin();
  void on_stop(pid_t thread, int status);
  void on_call(pid_t thread);
  bool concerns(const Call& call) const;
  static void let_fail(pid_t thread, user_regs_struct registers, int error);

  std::string folder_;
  const Injection& injection_;
  pid_t child_;
  std::set<pid_t> known_;
  int index_ = 0;
  Outcome outcome_;
};

bool Tracer::begin() {
  int status = 0;
  if (::waitpid(child_, &status, __WALL) != child_ || !WIFSTOPPED(status))
    return false;
  known_.insert(child_);
  constexpr long kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP |
                            PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                            PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
  return ::ptrace(PTRACE_SETOPTIONS, child_, 0, kOptions) == 0 &&
         ::ptrace(PTRACE_CONT, child_, 0, 0) == 0;
}

// Ends when the child and all of its descendants have ended.
Outcome Tracer::run() {
  const Alarm alarm;
  if (!begin()) throw failure("cannot trace a child");
  for (;;) {
    int status = 0;
    const pid_t thread = ::waitpid(-1, &status, __WALL);
    if (thread < 0 && errno == ECHILD) return outcome_;
    if (thread < 0)
      throw std::runtime_error(concat(
          "the process has not ended after ", kMostSeconds,
          " s; its last call: ",
          outcome_.calls.empty() ? "none" : describe(outcome_.calls.back())));
    if (WIFSTOPPED(status))
      on_stop(thread, status);
    else if (thread == child_)
      outcome_.code = code_of(status);
  }
}

void Tracer::on_stop(pid_t thread, int status) {
  const bool is_new = known_.insert(thread).second;
  int signal = WSTOPSIG(status);
  if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
    on_call(thread);
    signal = 0;
  } else if (status >> 16 != 0 || (is_new && signal == SIGSTOP)) {
    signal = 0;  // an event, or the first stop of a thread
  }
  ::ptrace(PTRACE_CONT, thread, 0, signal);
}

bool Tracer::concerns(const Call& call) const {
  const auto is_within = [&](const std::string& path) {
    return path.starts_with(folder_) &&
           (path.size() == folder_.size() || path[folder_.size()] == '/');
  };
  return (is_within(call.path) || is_within(call.other)) &&
         (call.changes || injection_.counts_reads);
}

void Tracer::on_call(pid_t thread) {
  user_regs_struct registers = {};
  if (::ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0) return;
  const CallForm* form = form_of(static_cast<long>(registers.orig_rax));
  if (!form) return;
  Call call = call_of(*form, Arguments(thread, registers));
  if (!concerns(call)) return;
  call.process = process_of(thread);
  const int index = index_++;
  outcome_.calls.push_back(call);
  if (index == injection_.kill_at) {
    if (injection_.before_kill) injection_.before_kill(call);
    outcome_.has_killed = true;
    ::kill(call.process, SIGKILL);
    return;
  }
  const int error = injection_.fail ? injection_.fail(call, index) : 0;
  if (error != 0) let_fail(thread, registers, error);
}

// A call with number -1 is not executed.
void Tracer::let_fail(pid_t thread, user_regs_struct registers, int error) {
  registers.orig_rax = static_cast<unsigned long long>(-1);
  registers.rax = static_cast<unsigned long long>(-error);
  ::ptrace(PTRACE_SETREGS, thread, 0, &registers);
}

}  // namespace

std::string describe(const Call& call) {
  return concat(call.name, " ", call.path, call.other.empty() ? "" : " ",
                call.other);
}

bool can_trace() {
  try {
    const Outcome outcome =
        run_traced("/dev/null", {.fail = [](const Call&, int) { return EIO; }},
                   [] { return ::open("/dev/null", O_RDONLY) < 0 ? 7 : 1; });
    return outcome.code == 7;
  } catch (const std::exception&) {
    return false;
  }
}

Outcome run_traced(const fs::path& folder, const Injection& injection,
                   const std::function<int()>& body) {
  const Output output;
  ::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw failure("fork");
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) ::_exit(kNoTracing);
    ::raise(SIGSTOP);
    if (!install_filter()) ::_exit(kNoTracing);
    become_child(output, body);
  }
  Outcome outcome = Tracer(folder, injection, child).run();
  outcome.output = output.text();
  return outcome;
}

Outcome run_plainly(const std::function<int()>& body) {
  const Output output;
  ::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw failure("fork");
  if (child == 0) become_child(output, body);
  Outcome outcome;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  outcome.code = code_of(status);
  outcome.output = output.text();
  return outcome;
}

}  // namespace sheaf::crash
