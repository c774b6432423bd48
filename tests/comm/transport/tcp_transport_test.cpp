// Messages of the TCP transport, over loopback.

#include "sheaf/comm/transport/tcp_transport.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <numeric>
#include <thread>

#include "sheaf/comm/network/acceptor.hpp"
#include "sheaf/comm/transport/tcp_wire.hpp"
#include "tests/comm/network/loopback.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/tcp_ranks.hpp"

namespace sheaf::comm {
namespace {

using test::run_transports;
using Bytes = std::vector<unsigned char>;

Bytes pattern(std::size_t bytes, unsigned seed) {
  Bytes result(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    result[i] = static_cast<unsigned char>(i * 31 + i / 251 + seed);
  return result;
}

void wait(Transport& transport, std::vector<Request>& requests) {
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (Request& request : requests)
      is_done = transport.test(request) && is_done;
  }
}

void wait(Transport& transport, Request request) {
  while (!transport.test(request)) {
  }
}

std::string error_of_request(Transport& transport, Request request) {
  try {
    wait(transport, std::move(request));
    return "none";
  } catch (const TransportError& error) {
    return error.what();
  }
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// In both directions at once, with sizes around every limit of the protocol.
TEST(TcpTransport, MessagesOfEverySizeBothWays) {
  run_transports(2, [](auto& transport) {
    const int me = transport->rank();
    const int peer = 1 - me;
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{4097}, kPartBytes + 1,
          kEagerBytes - 1, kEagerBytes, kEagerBytes + 1,
          3 * kEagerBytes + 12345, std::size_t{20} << 20}) {
      const Bytes mine = pattern(bytes, static_cast<unsigned>(me));
      Bytes theirs(bytes);
      std::vector<Request> requests;
      requests.push_back(
          transport->receive(peer, 5, theirs.data(), theirs.size()));
      requests.push_back(transport->send(peer, 5, mine.data(), mine.size()));
      wait(*transport, requests);
      EXPECT_EQ(theirs, pattern(bytes, static_cast<unsigned>(peer))) << bytes;
    }
    transport->finalize(true);
  });
}

// Many large messages at once, received in a different order than sent.
TEST(TcpTransport, LargeMessagesTakeTurnsWithSmallOnes) {
  constexpr Tag kTags = 6;
  run_transports(3, [](auto& transport) {
    const int me = transport->rank();
    const std::size_t bytes = 2 * kEagerBytes + 77;
    std::vector<Bytes> out;
    std::vector<Bytes> in(3 * kTags, Bytes(bytes));
    std::vector<Request> requests;
    for (Tag tag = 0; tag < kTags; ++tag)
      out.push_back(pattern(bytes, tag * 3 + static_cast<unsigned>(me)));
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == me) continue;
      for (Tag tag = 0; tag < kTags; ++tag)
        requests.push_back(transport->send(peer, tag, out[tag].data(), bytes));
    }
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == me) continue;
      for (Tag tag = kTags; tag-- > 0;)
        requests.push_back(transport->receive(
            peer, tag, in[tag * 3 + static_cast<Tag>(peer)].data(), bytes));
    }
    wait(*transport, requests);
    for (int peer = 0; peer < 3; ++peer)
      for (Tag tag = 0; tag < kTags && peer != me; ++tag)
        EXPECT_EQ(in[tag * 3 + static_cast<Tag>(peer)],
                  pattern(bytes, tag * 3 + static_cast<unsigned>(peer)));
    transport->finalize(true);
  });
}

TEST(TcpTransport, OrderPerTag) {
  constexpr int kCount = 3000;
  run_transports(2, [](auto& transport) {
    if (transport->rank() == 0) {
      std::vector<int> values(kCount);
      std::iota(values.begin(), values.end(), 0);
      std::vector<Request> requests;
      for (const int& value : values)
        requests.push_back(transport->send(1, static_cast<Tag>(value % 7),
                                           &value, sizeof value));
      wait(*transport, requests);
    } else {
      for (int tag = 6; tag >= 0; --tag)
        for (int expected = tag; expected < kCount; expected += 7) {
          int value = -1;
          wait(*transport, transport->receive(0, static_cast<Tag>(tag), &value,
                                              sizeof value));
          ASSERT_EQ(value, expected);
        }
    }
    transport->finalize(true);
  });
}

// More than the receiver buffers: the sender must wait, and nothing is lost.
TEST(TcpTransport, UnexpectedMessagesHaveABound) {
  constexpr std::size_t kBytes = 1 << 20;
  constexpr std::size_t kCount = kUnexpectedBytes / kBytes + 40;
  run_transports(2, [](auto& transport) {
    const Bytes data = pattern(kBytes, 1);
    if (transport->rank() == 0) {
      std::vector<Request> requests;
      for (std::size_t i = 0; i < kCount; ++i)
        requests.push_back(transport->send(1, 1, data.data(), data.size()));
      const int last = 42;
      requests.push_back(transport->send(1, 2, &last, sizeof last));
      wait(*transport, requests);
    } else {
      int last = 0;
      wait(*transport, transport->receive(0, 2, &last, sizeof last));
      EXPECT_EQ(last, 42);
      for (std::size_t i = 0; i < kCount; ++i) {
        Bytes got(kBytes);
        wait(*transport, transport->receive(0, 1, got.data(), got.size()));
        ASSERT_EQ(got, data) << i;
      }
    }
    transport->finalize(true);
  });
}

TEST(TcpTransport, ProbeTellsSenderAndSize) {
  run_transports(3, [](auto& transport) {
    const Bytes data =
        pattern(static_cast<std::size_t>(100 * transport->rank()), 0);
    if (transport->rank() != 0) {
      wait(*transport, transport->send(0, 9, data.data(), data.size()));
    } else {
      EXPECT_FALSE(transport->probe(8));
      for (int i = 0; i < 2; ++i) {
        std::optional<Transport::Arrived> arrived;
        while (!arrived) arrived = transport->probe(9);
        ASSERT_EQ(arrived->bytes,
                  static_cast<std::size_t>(100 * arrived->peer));
        Bytes got(arrived->bytes);
        wait(*transport,
             transport->receive(arrived->peer, 9, got.data(), got.size()));
        EXPECT_EQ(got, pattern(got.size(), 0));
      }
    }
    transport->finalize(true);
  });
}

// Only the receiver gets an error; both ranks can continue.
TEST(TcpTransport, AnotherSizeThanExpected) {
  for (const std::size_t bytes : {std::size_t{10}, 5 * kEagerBytes})
    run_transports(2, [&](auto& transport) {
      Bytes data(bytes);
      int more = 7;
      if (transport->rank() == 0) {
        wait(*transport, transport->send(1, 1, data.data(), bytes));
        wait(*transport, transport->send(1, 1, &more, sizeof more));
      } else {
        Bytes other(bytes + 1);
        EXPECT_EQ(
            error_of_request(*transport, transport->receive(0, 1, other.data(),
                                                            other.size())),
            concat("a message of rank 0 has ", bytes, " bytes, expected ",
                   bytes + 1));
        wait(*transport, transport->receive(0, 1, &more, sizeof more));
        EXPECT_EQ(more, 7);
      }
      transport->finalize(true);
    });
}

// A message that was abandoned midway does not affect later messages.
TEST(TcpTransport, AbandonedRequests) {
  run_transports(2, [](auto& transport) {
    const int peer = 1 - transport->rank();
    int value = transport->rank();
    {
      Bytes large(20 * kEagerBytes);
      Request request =
          transport->rank() == 0
              ? transport->send(peer, 1, large.data(), large.size())
              : transport->receive(peer, 1, large.data(), large.size());
      transport->abandon(request);
      EXPECT_FALSE(request);
    }
    int got = -1;
    std::vector<Request> requests;
    requests.push_back(transport->receive(peer, 2, &got, sizeof got));
    requests.push_back(transport->send(peer, 2, &value, sizeof value));
    wait(*transport, requests);
    EXPECT_EQ(got, peer);
    transport->finalize(true);
  });
}

TEST(TcpTransport, APeerThatGoesIsNamed) {
  run_transports(3, [](auto& transport) {
    if (transport->rank() == 1) {
      const int last = 5;
      wait(*transport, transport->send(0, 1, &last, sizeof last));
      return transport.reset();  // as if it had died
    }
    if (transport->rank() == 2) return transport->finalize(false);
    int got = 0;
    Request large = transport->receive(1, 2, &got, sizeof got);
    EXPECT_TRUE(
        has(error_of_request(*transport, std::move(large)), "rank 1 has died"));
    // Messages sent before are still received.
    wait(*transport, transport->receive(1, 1, &got, sizeof got));
    EXPECT_EQ(got, 5);
    EXPECT_THROW(transport->receive(1, 1, &got, sizeof got), TransportError);
    EXPECT_THROW(transport->send(1, 1, &got, sizeof got), TransportError);
  });
}

TEST(TcpTransport, APeerThatEndsWellIsNamed) {
  run_transports(2, [](auto& transport) {
    int value = 3;
    if (transport->rank() == 1) {
      wait(*transport, transport->send(0, 1, &value, sizeof value));
      wait(*transport, transport->receive(0, 1, &value, sizeof value));
      return transport->finalize(true);
    }
    wait(*transport, transport->receive(1, 1, &value, sizeof value));
    wait(*transport, transport->send(1, 1, &value, sizeof value));
    EXPECT_EQ(error_of_request(*transport, transport->receive(1, 1, &value, 4)),
              "rank 1 has exited");
    transport->finalize(true);
  });
}

// Sends to rank 1, which dies after the first message.
void expect_gone_after_one(Transport& transport) {
  const int value = 0;
  const Bytes large(64 * kEagerBytes);
  wait(transport, transport.send(1, 1, &value, sizeof value));
  EXPECT_TRUE(has(error_of_request(transport, transport.send(1, 2, large.data(),
                                                             large.size())),
                  "rank 1 has died"));
}

TEST(TcpTransport, SendersHearOfADeathToo) {
  run_transports(2, [](auto& transport) {
    int value = 0;
    if (transport->rank() == 1) {
      wait(*transport, transport->receive(0, 1, &value, sizeof value));
      return transport.reset();
    }
    expect_gone_after_one(*transport);
  });
}

// The peer, which only waits for a message, has no connection to the sender.
TEST(TcpTransport, SendersHearOfADeathByTheirOwnConnection) {
  run_transports(2, [](auto& transport) {
    int value = 0;
    if (transport->rank() == 1) {
      while (!transport->probe(1)) {  // receive() would connect
      }
      wait(*transport, transport->receive(0, 1, &value, sizeof value));
      return transport.reset();
    }
    expect_gone_after_one(*transport);
    EXPECT_THROW(transport->send(1, 1, &value, sizeof value), TransportError);
  });
}

// No message with it is in progress.
TEST(TcpTransport, ADeathIsNoticedByLooking) {
  run_transports(2, [](auto& transport) {
    int value = 0;
    if (transport->rank() == 1) {
      wait(*transport, transport->receive(0, 1, &value, sizeof value));
      return transport.reset();
    }
    transport->check_peer(1);
    wait(*transport, transport->send(1, 1, &value, sizeof value));
    EXPECT_THROW(for (;;) transport->check_peer(1), TransportError);
  });
}

// Rank 0 of two, whose peer is what listens there. The time for unreachable
// hosts is over.
std::unique_ptr<Transport> transport_to(const test::Listener& listener) {
  TcpOptions options{.interface = "lo", .address = {}};
  options.connect_timeout = {};
  return make_tcp_transport(0, 2, options, [&](const std::string& card) {
    return MeetingResult{
        .cards = {card, text_of(TcpCard{.port = listener.port,
                                        .addresses = {test::kLoopback}})},
        .session = {}};
  });
}

const Party kPeer{
    .purpose = Purpose::kTransport, .identity = {}, .rank = 1, .size = 2};

// The kernel of rank 1 accepts connections, but the process does not run.
TEST(TcpTransport, AStoppedPeerIsWaitedFor) {
  test::Listener listener;
  const auto transport = transport_to(listener);
  const int sent = 7;
  Request send = transport->send(1, 1, &sent, sizeof sent);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(transport->test(send));
    std::this_thread::yield();
  }
  std::promise<Channel> welcomed;
  const Acceptor acceptor(std::move(listener.socket), kPeer,
                          [&](Acceptor::Guest guest) {
                            guest.channel.flush();
                            welcomed.set_value(std::move(guest.channel));
                          });
  wait(*transport, std::move(send));
  const Channel channel = welcomed.get_future().get();
  FrameHead head;
  int got = 0;
  EXPECT_TRUE(read_within(channel.fd(), &head, sizeof head, test::soon()) &&
              read_within(channel.fd(), &got, sizeof got, test::soon()));
  EXPECT_EQ(got, sent);
}

// It has proved that it is rank 1, and never gets the proof of rank 0.
TEST(TcpTransport, AHostThatIsLostWhileConnectingIsAnError) {
  const test::ScopedVariable set("SHEAF_HOST_TIMEOUT", "500ms");
  const test::Listener listener;
  const auto transport = transport_to(listener);
  const int value = 7;
  Request send = transport->send(1, 1, &value, sizeof value);
  ASSERT_TRUE(is_ready(listener.socket.fd(), POLLIN, test::soon()));
  const Socket lost(::accept(listener.socket.fd(), nullptr, nullptr));
  while (!is_ready(lost.fd(), POLLIN, Deadline::min()))
    ASSERT_FALSE(transport->test(send));
  ClientHello hello;
  ASSERT_TRUE(read_within(lost.fd(), &hello, sizeof hello, test::soon()));
  test::cut_off(lost);
  const auto answer = ServerHandshake(kPeer).answer(hello);
  ASSERT_TRUE(write_within(lost.fd(), &*answer, sizeof *answer, test::soon()));
  const std::string text = error_of_request(*transport, std::move(send));
  EXPECT_TRUE(has(text, "rank 1 cannot be reached any more")) << text;
}

TEST(TcpTransport, ManyThreadsAtOnce) {
  run_transports(2, [](auto& transport) {
    std::vector<std::thread> threads;
    const int peer = 1 - transport->rank();
    for (Tag tag = 0; tag < 4; ++tag)
      threads.emplace_back([&, tag] {
        for (const std::size_t bytes : {8, 70000, 1500000, 8, 3000000}) {
          const Bytes mine = pattern(bytes, tag);
          Bytes theirs(bytes);
          std::vector<Request> requests;
          requests.push_back(
              transport->receive(peer, tag, theirs.data(), bytes));
          requests.push_back(transport->send(peer, tag, mine.data(), bytes));
          wait(*transport, requests);
          ASSERT_EQ(mine, theirs);
        }
      });
    for (auto& thread : threads) thread.join();
    transport->finalize(true);
  });
}

}  // namespace
}  // namespace sheaf::comm
