#pragma once
// Sockets: ownership, waiting with a deadline, and the options of connections
// between ranks.

#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace sheaf::comm {

// Owns a file descriptor. A child process that the program forks does not keep
// it: otherwise a connection would stay open after the death of its rank.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd);
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { close(); }
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void close() noexcept;

 private:
  int fd_ = -1;
};

// An event counter (eventfd), nonblocking, to wake a thread that polls. Throws
// CommError if there is none, because no descriptor is left.
Socket new_event();
void wake(const Socket& event);
// Resets it.
void clear(const Socket& event);

// Whether a socket call that failed with this errno should be retried.
inline bool is_for_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

using Deadline = std::chrono::steady_clock::time_point;

// The time left, in the unit of poll(); 0 after the deadline.
int milliseconds_until(Deadline deadline);
// Whether one of the poll() events occurred before the deadline.
bool is_ready(int fd, short events, Deadline deadline);
// Return whether exactly `bytes` bytes were read or written before the
// deadline.
bool read_within(int fd, void* data, std::size_t bytes, Deadline deadline);
bool write_within(int fd, const void* data, std::size_t bytes,
                  Deadline deadline);

// For connections between ranks: no Nagle delay, nonblocking, and keep-alive,
// which detects that the host of an idle connection is gone. There is no limit
// on the time until data is acknowledged, because a rank that computes does not
// read: see AckWatch.
void prepare(const Socket& socket);

}  // namespace sheaf::comm
