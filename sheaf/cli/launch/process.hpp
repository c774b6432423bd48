#pragma once
// Small pieces of POSIX that the launcher and the ranks' wrapper share.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::cli {

using Clock = std::chrono::steady_clock;

// A file descriptor that is closed with its owner.
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

// Blocks signals while it lives, so that they are read from fd() instead.
class SignalQueue {
 public:
  explicit SignalQueue(const std::vector<int>& signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  struct Signal {
    int number = 0;               // 0: none is waiting
    bool is_from_kernel = false;  // such as Ctrl-C on a terminal
  };
  Signal next();
  int fd() const { return fd_.get(); }

  // For a child between fork and exec: the signals as they were before.
  void restore_in_child() const;

 private:
  Fd fd_;
  sigset_t before_;
};

// Replaces this process; comes back, with errno set, only when it cannot.
void exec_command(const std::vector<std::string>& command);

// Writes all of it, also to a descriptor that does not block. False when the
// other end is closed.
bool write_all(int fd, std::string_view bytes);

// What is there to read, at most `limit` bytes; closes `fd` at its end.
std::string read_some(Fd& fd, std::size_t limit);

// Milliseconds until `deadline` for poll(), rounded up; 0 when it is past.
int poll_timeout_ms(Clock::time_point deadline);

// 128 + n for signal n, as shells do.
int code_of_wait_status(int status);

// The command line as a shell would need it.
std::string shell_quote(const std::vector<std::string>& command);

}  // namespace sheaf::cli
