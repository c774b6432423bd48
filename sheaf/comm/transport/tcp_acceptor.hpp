#pragma once
// Lets peers connect while this rank is busy with something else.

#include <functional>
#include <thread>

#include "sheaf/comm/transport/tcp_socket.hpp"

namespace sheaf::comm {

class TcpAcceptor {
 public:
  // Called by the acceptor's thread for each rank that has said hello.
  using Welcome = std::function<void(int rank, Socket socket)>;

  // `mine` is this rank's hello: what a peer has to know, and the answer.
  TcpAcceptor(Socket listening, const Hello& mine, Welcome welcome);
  ~TcpAcceptor();
  TcpAcceptor(const TcpAcceptor&) = delete;
  TcpAcceptor& operator=(const TcpAcceptor&) = delete;

 private:
  void run();
  void greet(Socket socket);

  Socket listening_;
  Socket stop_;  // an event
  const Hello mine_;
  const Welcome welcome_;
  std::thread thread_;
};

}  // namespace sheaf::comm
