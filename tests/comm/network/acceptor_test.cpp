#include "sheaf/comm/network/acceptor.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <ctime>
#include <future>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/connect.hpp"
#include "tests/comm/network/loopback.hpp"

namespace sheaf::comm {
namespace {

using test::party;

// An acceptor of rank 0, and a rank that connects to it.
class Accepting : public testing::Test {
 protected:
  Connection connect(const Party& me, int peer = 0) {
    return connect_to({.endpoints = {{test::kLoopback, listener_.port}},
                       .me = me,
                       .peer = peer,
                       .deadline = test::soon()});
  }
  // Connects from another address of this host.
  Socket connect_from(const char* address) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    EXPECT_EQ(inet_pton(AF_INET, address, &name.sin_addr), 1);
    EXPECT_EQ(::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&name),
                     sizeof name),
              0);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(listener_.port);
    EXPECT_EQ(::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&name),
                        sizeof name),
              0);
    return socket;
  }
  // More strangers than there may be visitors, each with the hello of `party`.
  // On return all have been accepted.
  std::vector<Socket> flood_from(const char* address,
                                 const std::optional<Party>& party) {
    std::vector<Socket> strangers;
    for (std::size_t i = 0; i < Acceptor::kMostVisitors + 53; ++i) {
      strangers.push_back(connect_from(address));
      if (party) say(strangers.back(), ClientHandshake(*party, 0).hello());
    }
    const Socket last = connect_from("127.0.0.1");
    const ClientHandshake handshake(test::party(2, 3), 0);
    say(last, handshake.hello());
    EXPECT_TRUE(hear<ServerHello>(last));
    return strangers;
  }
  template <class Message>
  void say(const Socket& socket, const Message& message) {
    EXPECT_TRUE(
        write_within(socket.fd(), &message, sizeof message, test::soon()));
  }
  template <class Message>
  std::optional<Message> hear(const Socket& socket) {
    Message message;
    if (!read_within(socket.fd(), &message, sizeof message, test::soon()))
      return std::nullopt;
    return message;
  }
  void expect_closed(const Socket& socket) {
    char byte = 0;
    EXPECT_TRUE(is_ready(socket.fd(), POLLIN, test::soon()));
    EXPECT_LE(::recv(socket.fd(), &byte, 1, 0), 0);
  }

  std::promise<Acceptor::Guest> welcomed_;
  test::Listener listener_;
  Acceptor acceptor_{std::move(listener_.socket), party(0, 3),
                     [this](Acceptor::Guest guest) {
                       guest.channel.flush();
                       welcomed_.set_value(std::move(guest));
                     }};
};

TEST_F(Accepting, ARankOfTheJobIsWelcome) {
  const Connection connection = connect(party(2, 3));
  EXPECT_TRUE(connection.channel) << connection.why;
  const Acceptor::Guest guest = welcomed_.get_future().get();
  EXPECT_EQ(guest.rank, 2);
  EXPECT_EQ(guest.size, 3);
  EXPECT_TRUE(guest.channel);
  EXPECT_EQ(acceptor_.last_refusal(), "");
}

TEST_F(Accepting, AnotherSecretIsRefusedAndReported) {
  const Connection connection = connect(party(2, 3, "another secret"));
  EXPECT_FALSE(connection.channel);
  EXPECT_FALSE(connection.may_retry);
  EXPECT_NE(connection.why.find("another secret (SHEAF_SECRET)"),
            std::string::npos);
  while (acceptor_.last_refusal().empty()) std::this_thread::yield();
  EXPECT_NE(acceptor_.last_refusal().find("rank 2"), std::string::npos);
  EXPECT_NE(acceptor_.last_refusal().find("another secret"), std::string::npos);
}

TEST_F(Accepting, ARefusedRankGetsTheReason) {
  Party other = party(2, 3);
  other.identity.job = "another job";
  EXPECT_NE(connect(other).why.find("another job"), std::string::npos);
  EXPECT_NE(connect(party(2, 4)).why.find("number of ranks"),
            std::string::npos);
  EXPECT_NE(connect(party(2, 3), /*peer=*/1).why.find("another rank"),
            std::string::npos);
  EXPECT_NE(acceptor_.last_refusal().find("another rank"), std::string::npos);
}

TEST_F(Accepting, OtherProgramsGetNoAnswer) {
  const Socket stranger = test::connect_to_loopback(listener_.port);
  const char nonsense[100] = "GET / HTTP/1.0\r\n\r\n";
  ASSERT_TRUE(
      write_within(stranger.fd(), nonsense, sizeof nonsense, test::soon()));
  expect_closed(stranger);
}

TEST_F(Accepting, AWrongProofIsRefused) {
  const Socket stranger = test::connect_to_loopback(listener_.port);
  const ClientHandshake handshake(party(1, 3), 0);
  struct {
    ClientHello hello;
    Mac proof{};
  } message{handshake.hello()};
  ASSERT_TRUE(
      write_within(stranger.fd(), &message, sizeof message, test::soon()));
  ServerHello answer;
  ASSERT_TRUE(read_within(stranger.fd(), &answer, sizeof answer, test::soon()));
  expect_closed(stranger);
  EXPECT_NE(acceptor_.last_refusal().find("recorded"), std::string::npos);
}

// Without a secret anybody can compute a proof, also one that vouches for a
// public key of low order, with which all sides compute the same shared key.
TEST(AcceptingEncrypted, AWeakKeyIsRefused) {
  Party me = party(0, 2);
  me.identity = {.job = "open", .key = {}};
  me.encrypts = true;
  test::Listener listener;
  Acceptor acceptor(std::move(listener.socket), me,
                    [](Acceptor::Guest) { ADD_FAILURE() << "was accepted"; });
  const Socket stranger = test::connect_to_loopback(listener.port);
  me.rank = 1;
  ClientHello hello = ClientHandshake(me, 0).hello();
  hello.public_key = {};
  ASSERT_TRUE(write_within(stranger.fd(), &hello, sizeof hello, test::soon()));
  ServerHello answer;
  ASSERT_TRUE(read_within(stranger.fd(), &answer, sizeof answer, test::soon()));
  ServerHello without_code = answer;
  without_code.mac = {};
  const Mac proof = Key().mac(
      {bytes_of("sheaf client"), bytes_of(hello), bytes_of(without_code)});
  ASSERT_TRUE(write_within(stranger.fd(), &proof, sizeof proof, test::soon()));
  char byte = 0;
  EXPECT_FALSE(read_within(stranger.fd(), &byte, 1, test::soon()));
  EXPECT_NE(acceptor.last_refusal().find("weak key"), std::string::npos)
      << acceptor.last_refusal();
}

// Connections that say nothing, or not enough, do not keep a rank out.
TEST_F(Accepting, SilentStrangersAreNotWaitedFor) {
  std::vector<Socket> strangers;
  for (std::size_t i = 0; i < Acceptor::kMostVisitors + 53; ++i) {
    strangers.push_back(test::connect_to_loopback(listener_.port));
    const char some[79] = "";
    if (i % 2) write_within(strangers.back().fd(), some, i % 80, test::soon());
  }
  EXPECT_TRUE(connect(party(1, 3)).channel);
  expect_closed(strangers[0]);  // the oldest gave way
}

// It has connected, but not said anything yet.
TEST_F(Accepting, AFloodDoesNotDisplaceARankOfAnotherAddress) {
  const Socket slow = connect_from("127.0.0.1");
  const auto strangers = flood_from("127.0.0.2", std::nullopt);
  expect_closed(strangers.front());
  say(slow, ClientHandshake(party(1, 3), 0).hello());
  EXPECT_TRUE(hear<ServerHello>(slow));
}

// Such as through a router that replaces the addresses of all.
TEST_F(Accepting, AFloodFromTheSameAddressDoesNotDisplaceAValidHello) {
  Party other = party(1, 3);
  other.identity.job = "another job";
  for (const std::optional<Party>& stranger :
       {std::optional<Party>(), std::optional(other)}) {
    const Socket slow = connect_from("127.0.0.1");
    say(slow, ClientHandshake(party(1, 3), 0).hello());
    ASSERT_TRUE(hear<ServerHello>(slow));
    const auto strangers = flood_from("127.0.0.1", stranger);
    pollfd entry{slow.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&entry, 1, 0), 0) << "closed";
  }
}

// Strangers may know the name of the job.
TEST_F(Accepting, AFloodOfValidHellosDoesNotDisplaceASlowRank) {
  const Socket slow = connect_from("127.0.0.1");
  const auto strangers = flood_from("127.0.0.1", party(1, 3));
  say(slow, ClientHandshake(party(1, 3), 0).hello());
  EXPECT_TRUE(hear<ServerHello>(slow));
}

// While it exists, this process has only `free` descriptors left.
class FewDescriptors {
 public:
  explicit FewDescriptors(std::size_t free) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int next = ::dup(0);
    ::close(next);
    const rlimit low{static_cast<rlim_t>(next + 64), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.push_back(fd);
    for (; free > 0; --free) give_one_back();
  }
  ~FewDescriptors() {
    while (!taken_.empty()) give_one_back();
    setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  void give_one_back() {
    ::close(taken_.back());
    taken_.pop_back();
  }
  rlimit before_{};
  std::vector<int> taken_{};
};

TEST_F(Accepting, ManyConnectionsNeedFewDescriptors) {
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i)
    strangers.push_back(test::connect_to_loopback(listener_.port));
  const ClientHandshake handshake(party(1, 3), 0);
  ServerHello answer;  // to the last one, so all have been accepted
  const int fd = strangers.back().fd();
  ASSERT_TRUE(
      write_within(fd, &handshake.hello(), sizeof(ClientHello), test::soon()));
  ASSERT_TRUE(read_within(fd, &answer, sizeof answer, test::soon()));
  const FewDescriptors limit(1);
  EXPECT_TRUE(connect(party(1, 3)).channel);
}

// Otherwise the program could not open files of its own.
TEST(Acceptor, StrangersTakeFewOfTheDescriptors) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{400, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  test::Listener listener;
  const Acceptor acceptor(std::move(listener.socket), party(0, 3),
                          [](Acceptor::Guest) {});
  std::vector<Socket> strangers;
  for (int i = 0; i < 400 / 8 + 3 + 1; ++i)
    strangers.push_back(test::connect_to_loopback(listener.port));
  // Before its time is over.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  EXPECT_TRUE(is_ready(strangers[0].fd(), POLLIN, until));
  setrlimit(RLIMIT_NOFILE, &before);
}

std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::nanoseconds(time.tv_nsec);
}

// Neither is the processor kept busy, nor does the acceptor stop.
TEST(Acceptor, WaitsWhileThereIsNoDescriptor) {
  constexpr auto kWhile = std::chrono::milliseconds(300);
  test::Listener listener;
  Socket stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(listener.port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::optional<FewDescriptors> few(1);  // for its event, and none to spare
  std::promise<Channel> welcomed;
  const Acceptor acceptor(std::move(listener.socket), party(0, 3),
                          [&](Acceptor::Guest guest) {
                            guest.channel.flush();
                            welcomed.set_value(std::move(guest.channel));
                          });
  ASSERT_EQ(::connect(stranger.fd(), reinterpret_cast<const sockaddr*>(&name),
                      sizeof name),
            0);
  const auto before = processor_time();
  std::this_thread::sleep_for(kWhile);
  EXPECT_LT(processor_time() - before, kWhile / 20);
  few.reset();
  EXPECT_TRUE(connect_to({.endpoints = {{test::kLoopback, listener.port}},
                          .me = party(1, 3),
                          .peer = 0,
                          .deadline = test::soon()})
                  .channel);
}

TEST(Acceptor, NeedsADescriptorAtItsStart) {
  test::Listener listener;
  const FewDescriptors none(0);
  EXPECT_THROW(Acceptor(std::move(listener.socket), party(0, 3),
                        [](const Acceptor::Guest&) {}),
               CommError);
}

TEST(Acceptor, SurvivesAGuestThatCannotBeStored) {
  test::Listener listener;
  int guests = 0;
  const Acceptor acceptor(std::move(listener.socket), party(0, 3),
                          [&](const Acceptor::Guest&) {
                            ++guests;
                            throw CommError("no room for a guest");
                          });
  for (int i = 0; i < 2; ++i) {
    const Connection connection =
        connect_to({.endpoints = {{test::kLoopback, listener.port}},
                    .me = party(1, 3),
                    .peer = 0,
                    .deadline = std::chrono::steady_clock::now()});
    EXPECT_FALSE(connection.channel);
  }
}

}  // namespace
}  // namespace sheaf::comm
