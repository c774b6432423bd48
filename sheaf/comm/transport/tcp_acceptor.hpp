#pragma once
// Accepts connections from peers on a thread of its own, while this rank is
// busy.

#include <functional>
#include <thread>

#include "sheaf/comm/transport/tcp_socket.hpp"

namespace sheaf::comm {

class TcpAcceptor {
 public:
  // Called on the acceptor's thread for each rank that has sent a valid hello.
  // It must keep the socket before it sends the answer: a peer sends messages
  // as soon as it has the answer, and may then end.
  using Welcome =
      std::function<void(int rank, Socket socket, const Hello& answer)>;

  // `mine` is this rank's hello: a peer's hello must match it, and it is the
  // answer.
  TcpAcceptor(Socket listening, const Hello& mine, Welcome welcome);
  ~TcpAcceptor();
  TcpAcceptor(const TcpAcceptor&) = delete;
  TcpAcceptor& operator=(const TcpAcceptor&) = delete;

 private:
  void run();
  void greet(Socket socket);

  Socket listening_;
  Socket stop_;  // an eventfd that stops the thread
  const Hello mine_;
  const Welcome welcome_;
  std::thread thread_;
};

}  // namespace sheaf::comm
