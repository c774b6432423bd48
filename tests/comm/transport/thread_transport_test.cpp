// Mailboxes need no threads: a send is complete at once.

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

class ThreadTransports : public testing::Test {
 protected:
  void send(int from, int to, Tag tag, int value) {
    Request request = at(from).send(to, tag, &value, sizeof value);
    EXPECT_TRUE(at(from).test(request));
  }
  Transport& at(int rank) {
    return *transports_[static_cast<std::size_t>(rank)];
  }

  const std::vector<std::unique_ptr<Transport>> transports_ =
      make_thread_transports(3);
};

TEST_F(ThreadTransports, KnowTheirPlaces) {
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(at(rank).rank(), rank);
    EXPECT_EQ(at(rank).size(), 3);
    EXPECT_EQ(at(rank).name(), "threads");
    EXPECT_EQ(at(rank).library_all_reduce(), nullptr);
    EXPECT_EQ(at(rank).breakable(), nullptr);
  }
}

TEST_F(ThreadTransports, AReceiveEndsWhenItsMessageHasCome) {
  int value = 0;
  Request request = at(1).receive(0, 5, &value, sizeof value);
  EXPECT_FALSE(at(1).test(request));
  send(0, 1, /*tag=*/6, 60);
  send(2, 1, /*tag=*/5, 50);
  send(0, 2, /*tag=*/5, 70);
  EXPECT_FALSE(at(1).test(request));  // another tag, sender, receiver
  send(0, 1, /*tag=*/5, 80);
  EXPECT_TRUE(at(1).test(request));
  EXPECT_EQ(value, 80);
  EXPECT_FALSE(request);
  EXPECT_TRUE(at(1).test(request));
}

TEST_F(ThreadTransports, ReceivesAreServedInTheirOrder) {
  int first = 0;
  int second = 0;
  Request a = at(1).receive(0, 5, &first, sizeof first);
  Request b = at(1).receive(0, 5, &second, sizeof second);
  send(0, 1, 5, 10);
  send(0, 1, 5, 20);
  EXPECT_FALSE(at(1).test(b));  // the first message is for the other
  EXPECT_TRUE(at(1).test(a));
  EXPECT_TRUE(at(1).test(b));
  EXPECT_EQ(first, 10);
  EXPECT_EQ(second, 20);
}

TEST_F(ThreadTransports, EmptyMessagesArrive) {
  Request request = at(0).receive(2, 1, nullptr, 0);
  EXPECT_FALSE(at(0).test(request));
  at(2).send(0, 1, nullptr, 0);
  EXPECT_TRUE(at(0).test(request));
}

TEST_F(ThreadTransports, AnotherSizeIsAnErrorThatNamesBoth) {
  int value = 0;
  Request request = at(1).receive(0, 5, &value, 3);
  send(0, 1, 5, 1);
  expect_throws<TransportError>([&] { at(1).test(request); },
                                {"rank 0 has 4 bytes, expected 3"});
}

TEST_F(ThreadTransports, ProbeTellsTheOldestMessageOfATag) {
  EXPECT_FALSE(at(1).probe(5));
  send(2, 1, 4, 1);
  EXPECT_FALSE(at(1).probe(5));
  send(2, 1, 5, 1);
  const auto arrived = at(1).probe(5);
  ASSERT_TRUE(arrived);
  EXPECT_EQ(arrived->peer, 2);
  EXPECT_EQ(arrived->bytes, sizeof(int));
  int value = 0;
  Request request = at(1).receive(2, 5, &value, sizeof value);
  EXPECT_TRUE(at(1).test(request));
  EXPECT_FALSE(at(1).probe(5));
}

TEST_F(ThreadTransports, AnAbandonedRequestIsNull) {
  int value = 7;
  Request request = at(1).receive(0, 5, &value, sizeof value);
  at(1).abandon(request);
  EXPECT_FALSE(request);
  send(0, 1, 5, 1);
  EXPECT_TRUE(at(1).test(request));
  EXPECT_EQ(value, 7);
}

}  // namespace
}  // namespace sheaf::comm
