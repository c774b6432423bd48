#include "sheaf/comm/network/socket.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "sheaf/base/child_processes.hpp"
#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

}  // namespace

Socket::Socket(int fd) : fd_(fd) {
  if (fd >= 0) close_in_children(fd);
}

void Socket::close() noexcept {
  if (fd_ < 0) return;
  keep_in_children(fd_);
  ::close(fd_);
  fd_ = -1;
}

Socket new_event() {
  Socket event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event)
    throw CommError(concat("cannot create an event counter: ", strerror(errno),
                           "; raise `ulimit -n`"));
  return event;
}

// A full counter wakes it, too.
void wake(const Socket& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto sent = ::write(event.fd(), &one, sizeof one);
}

void clear(const Socket& event) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(event.fd(), &count, sizeof count);
}

int milliseconds_until(Deadline deadline) {
  const auto now = steady_clock::now();
  if (deadline <= now) return 0;  // also where the difference would overflow
  const auto left = std::chrono::ceil<milliseconds>(deadline - now);
  return static_cast<int>(std::min<std::int64_t>(left.count(), 1'000'000'000));
}

bool is_ready(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int count = poll(&entry, 1, milliseconds_until(deadline));
    if (count >= 0 || errno != EINTR) return count > 0;
  }
}

bool read_within(int fd, void* data, std::size_t bytes, Deadline deadline) {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    if (!is_ready(fd, POLLIN, deadline)) return false;
    const ssize_t got = ::recv(fd, at, bytes, MSG_DONTWAIT);
    if (got < 0 && is_for_later(errno)) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_within(int fd, const void* data, std::size_t bytes,
                  Deadline deadline) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !is_for_later(errno)) return false;
    if (sent < 0 && !is_ready(fd, POLLOUT, deadline)) return false;
    if (sent < 0) continue;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

void prepare(const Socket& socket) {
  const int fd = socket.fd();
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
}

}  // namespace sheaf::comm
