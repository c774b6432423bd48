#include "sheaf/comm/transport/tcp_acceptor.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "sheaf/base/log.hpp"

namespace sheaf::comm {
namespace {

// Peers send their hello immediately; other programs may send nothing.
constexpr auto kHelloTimeout = std::chrono::milliseconds(1000);

}  // namespace

TcpAcceptor::TcpAcceptor(Socket listening, const Hello& mine, Welcome welcome)
    : listening_(std::move(listening)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      mine_(mine),
      welcome_(std::move(welcome)),
      thread_([this] { run(); }) {}

TcpAcceptor::~TcpAcceptor() {
  const std::uint64_t one = 1;
  if (write(stop_.fd(), &one, sizeof one) != sizeof one)
    log_warn("cannot wake the thread that accepts connections");
  thread_.join();
}

void TcpAcceptor::run() {
  for (;;) {
    pollfd entries[] = {{listening_.fd(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
    poll(entries, 2, -1);
    if (entries[1].revents) return;
    Socket socket(accept4(listening_.fd(), nullptr, nullptr,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) greet(std::move(socket));
  }
}

void TcpAcceptor::greet(Socket socket) {
  Hello theirs;
  const auto deadline = std::chrono::steady_clock::now() + kHelloTimeout;
  if (!read_within(socket.fd(), &theirs, sizeof theirs, deadline)) return;
  const bool is_peer = theirs.magic == mine_.magic &&
                       theirs.token == mine_.token &&
                       theirs.size == mine_.size && theirs.rank >= 0 &&
                       theirs.rank < mine_.size && theirs.rank != mine_.rank;
  if (!is_peer) return;
  prepare(socket);
  welcome_(theirs.rank, std::move(socket), mine_);
}

}  // namespace sheaf::comm
