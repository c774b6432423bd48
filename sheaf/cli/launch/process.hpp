#pragma once
// Processes, file descriptors and programs, for the launcher and the commands
// that start others.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::cli {

using Clock = std::chrono::steady_clock;

// Owns a file descriptor and closes it in the destructor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};
Pipe make_pipe();  // both ends close on exec

// Blocks signals during its lifetime; they are read with next() instead, and
// fd() can be polled.
class SignalQueue {
 public:
  explicit SignalQueue(const std::vector<int>& signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  struct Signal {
    int number = 0;               // 0: none pending
    bool is_from_kernel = false;  // such as Ctrl-C on a terminal
  };
  Signal next();
  int fd() const { return fd_.get(); }

  // Restores the previous signal mask, for a child between fork and exec.
  void restore_in_child() const;

 private:
  Fd fd_;
  sigset_t before_;
};

// Replaces this process; returns, with errno set, only on failure.
void exec_command(const std::vector<std::string>& command);

// Writes all bytes; waits if the descriptor is nonblocking. Returns false on an
// error, such as a closed reader.
bool write_all(int fd, std::string_view bytes);

// Reads the available bytes, at most `limit`; closes `fd` at end of file.
std::string read_some(Fd& fd, std::size_t limit);

// Milliseconds until `deadline` for poll(), rounded up; 0 if it has passed.
int poll_timeout_ms(Clock::time_point deadline);

// The exit code, or 128 + n for signal n, as in shells.
int code_of_wait_status(int status);

// The command line, quoted for a shell.
std::string shell_quote(const std::vector<std::string>& command);

// Programs that sheaf starts; sheaf-torch is the program with the commands that
// need libtorch.

// The file that a shell would run for `program`; empty if there is none.
std::string find_executable(const std::string& program);

// Throws UsageError, with the reason and a hint, if find_executable does not
// find `program`.
void check_executable(const std::string& program);

std::string this_executable();  // the file of the running program

// The path of sheaf-torch, in the folder of this program. Throws UsageError if
// it does not exist, because Sheaf was built without libtorch.
std::string torch_program();

// Replaces this process with sheaf-torch. Throws IoError if that fails.
[[noreturn]] void become_torch_program(const std::vector<std::string>& words);

}  // namespace sheaf::cli
