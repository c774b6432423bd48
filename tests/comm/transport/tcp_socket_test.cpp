#include "sheaf/comm/transport/tcp_socket.hpp"

#include <gtest/gtest.h>

#include <future>

#include "tests/comm/transport/socket_pair.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(30);

// Answers one connection with `answer`, whatever it says.
std::future<void> answer_one(int listening, Hello answer) {
  return std::async(std::launch::async, [=] {
    int fd = -1;
    while (fd < 0) fd = ::accept(listening, nullptr, nullptr);
    const Socket socket(fd);
    Hello hello;
    EXPECT_TRUE(read_within(socket.fd(), &hello, sizeof hello,
                            steady_clock::now() + kPatience));
    EXPECT_TRUE(write_all(socket.fd(), &answer, sizeof answer));
    char byte = 0;  // until the other side closes
    EXPECT_FALSE(
        read_within(socket.fd(), &byte, 1, steady_clock::now() + kPatience));
  });
}

class Connecting : public testing::Test {
 protected:
  Connecting() : listening_(listen_on_any_port(card_)) {}

  ConnectPlan plan() const {
    return {.card = card_,
            .addresses = card_.addresses,
            .hello = {.token = card_.token, .rank = 0, .size = 2},
            .peer = 1,
            .timeout = kPatience};
  }

  TcpCard card_{.addresses = list_addresses("lo")};
  const Socket listening_;
};

TEST_F(Connecting, ToThePeerSucceeds) {
  EXPECT_NE(card_.port, 0);
  auto peer =
      answer_one(listening_.fd(), {.token = card_.token, .rank = 1, .size = 2});
  std::string why;
  {
    const Socket socket = connect_to(plan(), why);
    EXPECT_TRUE(socket) << why;
  }
  peer.get();
}

TEST_F(Connecting, ToAnotherRankFailsWithAReason) {
  auto both = std::async(std::launch::async, [this] {
    for (int i = 0; i < 2; ++i)  // connect_to() tries twice
      answer_one(listening_.fd(), {.token = card_.token, .rank = 7, .size = 2})
          .get();
  });
  std::string why;
  EXPECT_FALSE(connect_to(plan(), why));
  both.get();
  EXPECT_EQ(why, text_of(card_.addresses[0]) + ": another program answered");
}

TEST_F(Connecting, ToAClosedPortNamesTheAddress) {
  {
    TcpCard closed{.addresses = card_.addresses};
    { const Socket socket = listen_on_any_port(closed); }
    card_.port = closed.port;
  }
  std::string why;
  EXPECT_FALSE(connect_to(plan(), why));
  EXPECT_EQ(why, text_of(card_.addresses[0]) + ": Connection refused");
}

TEST(Socket, OwnsItsDescriptor) {
  auto [mine, theirs] = test::socket_pair();
  Socket other(std::move(mine));
  EXPECT_FALSE(mine);  // NOLINT: defined for sockets
  EXPECT_TRUE(other);
  other.close();
  EXPECT_FALSE(other);
  char byte = 0;
  EXPECT_EQ(::recv(theirs.fd(), &byte, 1, 0), 0);
}

TEST(Socket, ReadWithinNeedsAllBytes) {
  auto [mine, theirs] = test::socket_pair();
  const int sent = 42;
  int got = 0;
  ASSERT_TRUE(write_all(theirs.fd(), &sent, 3));
  EXPECT_FALSE(read_within(mine.fd(), &got, sizeof got, steady_clock::now()));
  ASSERT_TRUE(write_all(theirs.fd(), &sent, sizeof sent));
  EXPECT_TRUE(read_within(mine.fd(), &got, sizeof got,
                          steady_clock::now() + kPatience));
  EXPECT_EQ(got, sent);
  theirs.close();
  EXPECT_FALSE(read_within(mine.fd(), &got, sizeof got,
                           steady_clock::now() + kPatience));
  EXPECT_FALSE(write_all(mine.fd(), &sent, sizeof sent));
}

}  // namespace
}  // namespace sheaf::comm
