#include "sheaf/comm/mailroom.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/thread_transport.hpp"

namespace sheaf::comm {
namespace {

LetterHead head(int source, int tag, std::size_t count, int group = 0) {
  return {.group = group,
          .source = source,
          .tag = tag,
          .enclosure = 0,
          .count = count,
          .dtype = DType::kI32};
}

// Two ranks that exchange letters in memory.
class TwoRooms : public testing::Test {
 protected:
  void send(const LetterHead& letter, const std::vector<int>& data) {
    auto out = sender_.send(/*peer=*/1, letter, data.data());
    EXPECT_TRUE(sender_.test(*out));
  }

  std::vector<std::unique_ptr<Transport>> transports_ =
      make_thread_transports(2);
  Mailroom sender_{*transports_[0]};
  Mailroom receiver_{*transports_[1]};
};

TEST_F(TwoRooms, AReceiveWaitsForItsLetter) {
  int data = 0;
  const auto receipt = receiver_.receive(head(0, 5, 1), &data);
  EXPECT_FALSE(receiver_.test(*receipt));
  send(head(0, 4, 1), {40});
  EXPECT_FALSE(receiver_.test(*receipt));
  send(head(0, 5, 1), {50});
  EXPECT_TRUE(receiver_.test(*receipt));
  EXPECT_EQ(data, 50);
  EXPECT_EQ(receipt->got.source, 0);
}

TEST_F(TwoRooms, ALetterWaitsForItsReceive) {
  send(head(0, 5, 1), {50});
  send(head(0, 4, 1), {40});
  int data = 0;
  EXPECT_TRUE(receiver_.test(*receiver_.receive(head(0, 4, 1), &data)));
  EXPECT_EQ(data, 40);
  EXPECT_TRUE(
      receiver_.test(*receiver_.receive(head(kAnySource, 5, 1), &data)));
  EXPECT_EQ(data, 50);
}

// The first to be posted gets the first to be sent, whoever tests first.
TEST_F(TwoRooms, MatchesInOrder) {
  int first = 0;
  int second = 0;
  const auto one = receiver_.receive(head(kAnySource, 0, 1), &first);
  const auto two = receiver_.receive(head(0, 0, 1), &second);
  send(head(0, 0, 1), {1});
  send(head(0, 0, 1), {2});
  EXPECT_TRUE(receiver_.test(*two));
  EXPECT_TRUE(receiver_.test(*one));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST_F(TwoRooms, KeepsGroupsApart) {
  int data = 0;
  const auto receipt = receiver_.receive(head(0, 0, 1, /*group=*/3), &data);
  send(head(0, 0, 1, /*group=*/2), {2});
  EXPECT_FALSE(receiver_.test(*receipt));
  send(head(0, 0, 1, /*group=*/3), {3});
  EXPECT_TRUE(receiver_.test(*receipt));
  EXPECT_EQ(data, 3);
}

TEST_F(TwoRooms, LargeContentsFollowTheirLetters) {
  const std::vector<int> a(5000, 1);
  const std::vector<int> b(5000, 2);
  send(head(0, 1, a.size()), a);
  send(head(0, 2, b.size()), b);
  std::vector<int> data(5000);
  EXPECT_TRUE(
      receiver_.test(*receiver_.receive(head(0, 2, 5000), data.data())));
  EXPECT_EQ(data, b);
  EXPECT_TRUE(
      receiver_.test(*receiver_.receive(head(0, 1, 5000), data.data())));
  EXPECT_EQ(data, a);
}

TEST_F(TwoRooms, ALetterThatDoesNotFitIsAnError) {
  send(head(0, 0, 2), {1, 2});
  std::vector<int> data(3);
  const auto receipt = receiver_.receive(head(0, 0, 3), data.data());
  EXPECT_THROW(receiver_.test(*receipt), MismatchError);
  EXPECT_EQ(data, std::vector<int>(3));
}

TEST_F(TwoRooms, AForgottenReceiveTakesNothing) {
  int data = 0;
  const auto forgotten = receiver_.receive(head(0, 0, 1), &data);
  receiver_.forget(forgotten);
  send(head(0, 0, 1), {7});
  int other = 0;
  EXPECT_TRUE(receiver_.test(*receiver_.receive(head(0, 0, 1), &other)));
  EXPECT_EQ(data, 0);
  EXPECT_EQ(other, 7);
}

TEST_F(TwoRooms, AnAdoptedMessageStillArrives) {
  const std::vector<int> large(5000, 9);
  sender_.adopt(sender_.send(1, head(0, 0, 5000), large.data()));
  std::vector<int> data(5000);
  EXPECT_TRUE(
      receiver_.test(*receiver_.receive(head(0, 0, 5000), data.data())));
  EXPECT_EQ(data, large);
}

}  // namespace
}  // namespace sheaf::comm
