#include "sheaf/comm/transport/tcp_acceptor.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>

#include "sheaf/comm/transport/tcp_inbox.hpp"

namespace sheaf::comm {
namespace {

constexpr auto kLong = std::chrono::seconds(30);

Socket connect_to_loopback(std::uint16_t port) {
  Socket result(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(port);
  EXPECT_EQ(connect(result.fd(), reinterpret_cast<const sockaddr*>(&name),
                    sizeof name),
            0);
  return result;
}

bool has_data(const Socket& socket) {
  char byte = 0;
  return ::recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

// Otherwise a peer that sends a message and ends could be reported as gone
// before its connection, with the message, is known.
TEST(TcpAcceptor, ThePeerGetsItsAnswerWhenItsConnectionIsAttached) {
  TcpCard card;
  Socket listening = listen_on_any_port(card);
  const Hello mine{.token = card.token, .rank = 0, .size = 2};
  std::promise<std::pair<int, Socket>> welcomed;
  const TcpAcceptor acceptor(std::move(listening), mine,
                             [&](int rank, Socket socket, const Hello&) {
                               welcomed.set_value({rank, std::move(socket)});
                             });
  const Socket peer = connect_to_loopback(card.port);
  const Hello theirs{.token = card.token, .rank = 1, .size = 2};
  ASSERT_TRUE(write_all(peer.fd(), &theirs, sizeof theirs));
  auto [rank, socket] = welcomed.get_future().get();
  EXPECT_EQ(rank, 1);
  EXPECT_FALSE(has_data(peer));

  Inbox inbox;
  inbox.attach(std::move(socket), mine);
  Hello answer;
  ASSERT_TRUE(read_within(peer.fd(), &answer, sizeof answer,
                          std::chrono::steady_clock::now() + kLong));
  EXPECT_EQ(answer.token, card.token);
  EXPECT_EQ(answer.rank, 0);
  EXPECT_TRUE(inbox.is_attached());
}

// A hello that does not fit closes the connection without an answer.
TEST(TcpAcceptor, AnotherProgramGetsNoAnswer) {
  TcpCard card;
  Socket listening = listen_on_any_port(card);
  const TcpAcceptor acceptor(
      std::move(listening), Hello{.token = card.token, .rank = 0, .size = 2},
      [](int, Socket, const Hello&) { ADD_FAILURE() << "not a peer"; });
  const Hello fits{.token = card.token, .rank = 1, .size = 2};
  std::vector<Hello> hellos(6, fits);
  hellos[0].magic += 1;
  hellos[1].token += 1;
  hellos[2].size = 3;
  hellos[3].rank = -1;
  hellos[4].rank = 0;  // that of the acceptor
  hellos[5].rank = 2;
  for (std::size_t i = 0; i < hellos.size(); ++i) {
    const Socket stranger = connect_to_loopback(card.port);
    ASSERT_TRUE(write_all(stranger.fd(), &hellos[i], sizeof hellos[i]));
    char byte = 0;
    EXPECT_EQ(::recv(stranger.fd(), &byte, 1, 0), 0) << "hello " << i;
  }
}

}  // namespace
}  // namespace sheaf::comm
