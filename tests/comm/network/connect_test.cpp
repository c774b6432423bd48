#include "sheaf/comm/network/connect.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <functional>
#include <future>
#include <optional>

#include "sheaf/comm/network/acceptor.hpp"
#include "tests/comm/network/loopback.hpp"
#include "tests/support/environment.hpp"

namespace sheaf::comm {
namespace {

using test::party;

Connection connect(std::vector<Endpoint> endpoints, Deadline deadline) {
  return connect_to({.endpoints = std::move(endpoints),
                     .me = party(1, 2),
                     .peer = 0,
                     .deadline = deadline});
}

Connection connect(std::uint16_t port) {
  return connect({{test::kLoopback, port}}, test::soon());
}

// Answers one connection with these bytes.
std::future<void> answer_one(const test::Listener& listener, const void* data,
                             std::size_t bytes) {
  return std::async(std::launch::async, [&listener, data, bytes] {
    EXPECT_TRUE(is_ready(listener.socket.fd(), POLLIN, test::soon()));
    const Socket socket(::accept(listener.socket.fd(), nullptr, nullptr));
    EXPECT_TRUE(write_within(socket.fd(), data, bytes, test::soon()));
    char rest[200];  // until the other side closes
    while (is_ready(socket.fd(), POLLIN, test::soon()) &&
           ::recv(socket.fd(), rest, sizeof rest, 0) > 0) {
    }
  });
}

TEST(Connecting, ToTheSecondEndpointSucceeds) {
  test::Listener listener;
  const std::uint16_t closed = test::free_port();
  std::promise<Channel> welcomed;
  const Acceptor acceptor(std::move(listener.socket), party(0, 2),
                          [&](Acceptor::Guest guest) {
                            guest.channel.flush();
                            welcomed.set_value(std::move(guest.channel));
                          });
  const Connection connection =
      connect({{test::kLoopback, closed}, {test::kLoopback, listener.port}},
              test::soon());
  EXPECT_TRUE(connection.channel) << connection.why;
  EXPECT_TRUE(welcomed.get_future().get());
}

TEST(Connecting, ToAnotherProgramFailsForGood) {
  const test::Listener listener;
  const char nonsense[200] = "HTTP/1.0 400 Bad Request\r\n\r\n";
  auto program = answer_one(listener, nonsense, sizeof nonsense);
  const Connection connection = connect(listener.port);
  EXPECT_FALSE(connection.channel);
  EXPECT_FALSE(connection.may_retry);
  EXPECT_EQ(connection.why, text_of(Endpoint{test::kLoopback, listener.port}) +
                                ": another program answered");
  program.get();
}

// It claims to be a rank, but does not know the secret.
TEST(Connecting, ToAnImpostorFails) {
  const test::Listener listener;
  auto hello = ServerHandshake(party(0, 2, "guess"))
                   .answer(ClientHandshake(party(1, 2), 0).hello());
  auto impostor = answer_one(listener, &*hello, sizeof *hello);
  EXPECT_NE(connect(listener.port).why.find("another secret"),
            std::string::npos);
  impostor.get();
}

TEST(Connecting, ToAClosedPortNamesTheEndpoint) {
  const std::uint16_t port = test::free_port();
  const Connection connection = connect(port);
  EXPECT_FALSE(connection.channel);
  EXPECT_TRUE(connection.may_retry);
  EXPECT_EQ(connection.why, concat("127.0.0.1:", port, ": Connection refused"));
}

// It lets rank 1 in.
class Peer {
 public:
  explicit Peer(Socket listening)
      : acceptor_(std::move(listening), party(0, 2),
                  [this](Acceptor::Guest guest) {
                    guest.channel.flush();
                    guests_.push_back(std::move(guest.channel));
                  }) {}

 private:
  std::vector<Channel> guests_;
  Acceptor acceptor_;
};

// Closes the connections to a listener, and then starts a peer there.
class LatePeer {
 public:
  LatePeer(test::Listener& listener, int most)
      : listener_(listener), most_(most) {}
  void operator()() {
    if (peer_) return;
    if (Socket(::accept4(listener_.socket.fd(), nullptr, nullptr,
                         SOCK_NONBLOCK | SOCK_CLOEXEC)))
      ++closed_;
    if (closed_ == most_) peer_.emplace(std::move(listener_.socket));
  }

 private:
  test::Listener& listener_;
  const int most_;
  int closed_ = 0;
  std::optional<Peer> peer_{};
};

// Such as a rank whose acceptor has many visitors.
TEST(Connecting, ToAPeerThatClosesConnectionsGoesOn) {
  test::Listener listener;
  LatePeer late(listener, 5);
  const Connection connection =
      connect_to({.endpoints = {{test::kLoopback, listener.port}},
                  .me = party(1, 2),
                  .peer = 0,
                  .deadline = test::soon()},
                 std::ref(late));
  EXPECT_TRUE(connection.channel) << connection.why;
}

// A connection whose other side has proved that it is rank 0, and waits for the
// proof of rank 1. It is driven here, step by step.
class Proving : public testing::Test {
 protected:
  Proving() {
    EXPECT_FALSE(connector_.advance());
    EXPECT_TRUE(is_ready(listener_.socket.fd(), POLLIN, test::soon()));
    theirs_ = Socket(::accept(listener_.socket.fd(), nullptr, nullptr));
    while (!is_ready(theirs_.fd(), POLLIN, Deadline::min()))
      connector_.advance();
    ClientHello hello;
    EXPECT_TRUE(read_within(theirs_.fd(), &hello, sizeof hello, test::soon()));
    const auto answer = ServerHandshake(party(0, 2)).answer(hello);
    EXPECT_TRUE(
        write_within(theirs_.fd(), &*answer, sizeof *answer, test::soon()));
    connector_.wait(test::soon());
  }
  Connection result() {
    while (!connector_.advance())
      connector_.wait(std::chrono::steady_clock::now() +
                      std::chrono::milliseconds(20));
    return connector_.take_result();
  }

  // The connector's end of the connection.
  int mine() const {
    for (int fd = 0; fd < 1024; ++fd)
      if (const auto peer = peer_of(fd); peer && peer->port == listener_.port)
        return fd;
    return -1;
  }

  const test::ScopedVariable short_{"SHEAF_HOST_TIMEOUT", "500ms"};
  test::Listener listener_;
  Connector connector_{{.endpoints = {{test::kLoopback, listener_.port}},
                        .me = party(1, 2),
                        .peer = 0,
                        .deadline = test::soon()}};
  Socket theirs_;
};

TEST_F(Proving, ToAHostThatIsLostEnds) {
  test::cut_off(theirs_);
  const Connection connection = result();
  EXPECT_FALSE(connection.channel);
  EXPECT_TRUE(connection.is_host_lost) << connection.why;
  EXPECT_FALSE(connection.may_retry);
  EXPECT_NE(connection.why.find("does not respond any more"), std::string::npos)
      << connection.why;
}

// Nothing that was sent waits for an acknowledgment. The kernel probes the host
// more often here than usual, but only if the connector asks for it.
TEST_F(Proving, ToAHostThatIsLostAfterTheProofEnds) {
  EXPECT_FALSE(connector_.advance());
  Mac proof;
  ASSERT_TRUE(read_within(theirs_.fd(), &proof, sizeof proof, test::soon()));
  test::cut_off(theirs_);
  for (const int option : {TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT}) {
    const int one = 1;
    ASSERT_EQ(setsockopt(mine(), IPPROTO_TCP, option, &one, sizeof one), 0);
  }
  const Connection connection = result();
  EXPECT_TRUE(connection.is_host_lost) << connection.why;
}

// A process that is stopped accepts nothing, but its kernel does.
TEST(Connecting, ToAPeerThatIsStoppedGoesOnUntilTheSecondDeadline) {
  test::Listener listener;
  std::optional<Peer> peer;
  int checks = 0;
  const Connection connection =
      connect_to({.endpoints = {{test::kLoopback, listener.port}},
                  .me = party(1, 2),
                  .peer = 0,
                  .deadline = std::chrono::steady_clock::now(),
                  .answer_deadline = test::soon()},
                 [&] {
                   if (++checks == 5) peer.emplace(std::move(listener.socket));
                 });
  EXPECT_TRUE(connection.channel) << connection.why;
}

// The kernel does not react to connections when the queue is full.
TEST(Connecting, AnEndpointThatDoesNotReactDoesNotHideOthers) {
  test::Listener silent;
  ASSERT_EQ(::listen(silent.socket.fd(), 0), 0);
  const Socket first = test::connect_to_loopback(silent.port);
  test::Listener listener;
  LatePeer late(listener, 1);
  const Connection connection =
      connect_to({.endpoints = {{test::kLoopback, silent.port},
                                {test::kLoopback, listener.port}},
                  .me = party(1, 2),
                  .peer = 0,
                  .deadline = test::soon()},
                 std::ref(late));
  EXPECT_TRUE(connection.channel) << connection.why;
}

// The kernel accepts the connection; nobody answers.
TEST(Connecting, ToASilentProgramEndsAtTheDeadline) {
  const test::Listener listener;
  const Connection connection =
      connect({{test::kLoopback, listener.port}},
              std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
  EXPECT_TRUE(connection.may_retry);
  EXPECT_NE(connection.why.find("no answer"), std::string::npos);
}

}  // namespace
}  // namespace sheaf::comm
