#include "sheaf/comm/transport/tcp_socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A rank whose acceptor is slow answers late. The connection is given up only
// after this time, because the peer attaches the first one and no other.
constexpr auto kAnswerTimeout = std::chrono::seconds(5);

sockaddr_in socket_name(std::uint32_t ip, std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = ip;
  name.sin_port = htons(port);
  return name;
}

int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

bool is_ready(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  return poll(&entry, 1, milliseconds_until(deadline)) > 0;
}

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

// Returns 0 or an error number.
int connect_within(int fd, const sockaddr_in& name, Deadline deadline) {
  if (connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0)
    return 0;
  if (errno != EINPROGRESS) return errno;
  if (!is_ready(fd, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

Socket try_address(const ConnectPlan& plan, const Address& address,
                   Deadline deadline, std::string& why) {
  Socket result(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto name = socket_name(address.ip, plan.card.port);
  Hello answer;
  if (const int error = connect_within(result.fd(), name, deadline)) {
    why = strerror(error);
  } else if (!write_all(result.fd(), &plan.hello, sizeof plan.hello) ||
             !read_within(result.fd(), &answer, sizeof answer,
                          steady_clock::now() + kAnswerTimeout)) {
    why = "connected, but no answer";
  } else if (answer.magic != plan.hello.magic ||
             answer.token != plan.hello.token || answer.rank != plan.peer) {
    why = "another program answered";
  } else {
    prepare(result);
    return result;
  }
  return {};
}

}  // namespace

void Socket::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Socket listen_on_any_port(TcpCard& card) {
  Socket result(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool has_one = card.addresses.size() == 1;
  auto name = socket_name(has_one ? card.addresses.front().ip : INADDR_ANY, 0);
  socklen_t length = sizeof name;
  auto* generic = reinterpret_cast<sockaddr*>(&name);
  if (!result || bind(result.fd(), generic, length) != 0 ||
      listen(result.fd(), SOMAXCONN) != 0 ||
      getsockname(result.fd(), generic, &length) != 0)
    throw CommError(concat("cannot listen for other ranks: ", strerror(errno)));
  card.port = ntohs(name.sin_port);
  std::random_device random;
  card.token = (std::uint64_t{random()} << 32) | random();
  return result;
}

Socket connect_to(const ConnectPlan& plan, std::string& why) {
  const auto deadline = steady_clock::now() + plan.timeout;
  // First pass with a short timeout, to skip unreachable addresses quickly;
  // then again with the full timeout.
  for (const auto patience : {milliseconds(500), plan.timeout}) {
    why.clear();
    for (const Address& address : plan.addresses) {
      const auto until = std::min(deadline, steady_clock::now() + patience);
      std::string reason;
      Socket result = try_address(plan, address, until, reason);
      if (result) return result;
      why += concat(why.empty() ? "" : ", ", text_of(address), ": ", reason);
    }
  }
  return {};
}

bool read_within(int fd, void* data, std::size_t bytes, Deadline deadline) {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    if (!is_ready(fd, POLLIN, deadline)) return false;
    const ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
    if (got < 0 && is_for_later(errno)) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* data, std::size_t bytes) {
  // A few bytes on a new connection always fit into its send buffer.
  return ::send(fd, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

void prepare(const Socket& socket) {
  const int fd = socket.fd();
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

}  // namespace sheaf::comm
