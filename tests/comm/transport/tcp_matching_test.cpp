// Which receive gets which message, and the answers to the peer.

#include <gtest/gtest.h>

#include "tests/comm/transport/inbox_fixture.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

using test::wire_pattern;
using test::WireBytes;
using State = TcpRequest::State;

class InboxMatching : public test::InboxTest {};

TEST_F(InboxMatching, AMessageWaitsForItsReceive) {
  whole_message(5, wire_pattern(10));
  EXPECT_EQ(inbox_.probe(5), 10u);
  EXPECT_FALSE(inbox_.probe(6));
  WireBytes got(10);
  const auto request = inbox_.receive(1, 5, got.data(), 10);
  EXPECT_EQ(request->state, State::kDone);
  EXPECT_EQ(got, wire_pattern(10));
  EXPECT_FALSE(inbox_.probe(5));
}

TEST_F(InboxMatching, MessagesOfATagKeepTheirOrder) {
  whole_message(5, wire_pattern(1));
  whole_message(5, wire_pattern(2));
  EXPECT_EQ(inbox_.probe(5), 1u);
  WireBytes got(2);
  EXPECT_EQ(inbox_.receive(1, 5, got.data(), 1)->state, State::kDone);
  EXPECT_EQ(inbox_.probe(5), 2u);
  EXPECT_EQ(inbox_.receive(1, 5, got.data(), 2)->state, State::kDone);
  EXPECT_EQ(got, wire_pattern(2));
}

TEST_F(InboxMatching, EmptyMessagesMatch) {
  const auto request = inbox_.receive(1, 5, nullptr, 0);
  whole_message(5, {});
  EXPECT_EQ(request->state, State::kDone);
}

TEST_F(InboxMatching, AWholeMessageOfAnotherSizeFailsItsReceive) {
  WireBytes got(10);
  const auto request = inbox_.receive(1, 5, got.data(), 10);
  whole_message(5, wire_pattern(7));
  EXPECT_EQ(request->state, State::kFailed);
  EXPECT_EQ(request->error, "a message of rank 1 has 7 bytes, expected 10");
  EXPECT_FALSE(peer_.has_data());
  whole_message(5, wire_pattern(3));  // the bytes of the other were skipped
  EXPECT_EQ(inbox_.probe(5), 3u);
}

TEST_F(InboxMatching, APartOfAnotherSizeIsRefused) {
  WireBytes got(10);
  const auto request = inbox_.receive(1, 5, got.data(), 10);
  begin_message(5, /*id=*/4, wire_pattern(3), 11);
  EXPECT_EQ(request->state, State::kFailed);
  const auto answer = peer_.read().first;
  EXPECT_EQ(answer.kind, FrameKind::kRefuse);
  EXPECT_EQ(answer.id, 4u);
}

TEST_F(InboxMatching, TheRestIsGrantedWhenAReceiveComes) {
  begin_message(5, /*id=*/4, wire_pattern(3), 10);
  EXPECT_FALSE(peer_.has_data());
  WireBytes got(10);
  const auto request = inbox_.receive(1, 5, got.data(), 10);
  EXPECT_EQ(peer_.read().first.kind, FrameKind::kGrant);
  const WireBytes all = wire_pattern(10);
  more_of(/*id=*/4, {all.begin() + 3, all.end()}, 10);
  EXPECT_EQ(request->state, State::kDone);
  EXPECT_EQ(got, all);
}

TEST_F(InboxMatching, ACanceledMessageFailsItsReceive) {
  WireBytes got(10);
  const auto request = inbox_.receive(1, 5, got.data(), 10);
  begin_message(5, /*id=*/4, wire_pattern(3), 10);
  peer_.write({.kind = FrameKind::kCancel, .id = 4});
  ASSERT_TRUE(inbox_.advance());
  EXPECT_EQ(request->state, State::kFailed);
  EXPECT_EQ(request->error, "rank 1 has canceled a message of 10 bytes");
}

TEST_F(InboxMatching, ACanceledMessageThatNobodyReceivedIsForgotten) {
  begin_message(5, /*id=*/4, wire_pattern(3), 10);
  peer_.write({.kind = FrameKind::kCancel, .id = 4});
  peer_.write({.kind = FrameKind::kCancel, .id = 4});  // unknown now
  ASSERT_TRUE(inbox_.advance());
  EXPECT_FALSE(inbox_.probe(5));
}

TEST_F(InboxMatching, AnAbandonedReceiveLeavesItsMessageToTheNext) {
  WireBytes got(10);
  inbox_.abandon(inbox_.receive(1, 5, got.data(), 10).release());
  whole_message(5, wire_pattern(10));
  EXPECT_EQ(inbox_.probe(5), 10u);
}

TEST_F(InboxMatching, TheRestOfAnAbandonedMessageIsSkipped) {
  WireBytes got(10, std::byte{9});
  auto request = inbox_.receive(1, 5, got.data(), 10);
  begin_message(5, /*id=*/4, wire_pattern(0), 10);
  inbox_.abandon(request.release());
  more_of(/*id=*/4, wire_pattern(10), 10);
  EXPECT_EQ(got, WireBytes(10, std::byte{9}));
  whole_message(6, wire_pattern(2));
  EXPECT_EQ(inbox_.probe(6), 2u);
}

// However small they are.
TEST_F(InboxMatching, APeerWithManyUnexpectedMessagesMustAsk) {
  const FrameHead empty{.kind = FrameKind::kWhole, .tag = 5};
  const std::vector<FrameHead> some(kUnexpectedCount / 256, empty);
  for (int i = 0; i < 256; ++i) {
    EXPECT_FALSE(peer_.has_data());
    peer_.write_bytes(some.data(), some.size() * sizeof empty);
    ASSERT_TRUE(inbox_.advance());
  }
  EXPECT_EQ(peer_.read().first.kind, FrameKind::kSlow);
  const std::size_t few = kUnexpectedCount / 4 - 1;
  for (std::size_t left = kUnexpectedCount; left > few + 1; --left)
    inbox_.receive(1, 5, nullptr, 0);
  EXPECT_FALSE(peer_.has_data());
  inbox_.receive(1, 5, nullptr, 0);
  EXPECT_EQ(peer_.read().first.kind, FrameKind::kFast);
}

TEST_F(InboxMatching, AFailureKeepsTheMessagesThatHaveCome) {
  WireBytes got(10);
  const auto waiting = inbox_.receive(1, 7, got.data(), 10);
  whole_message(5, wire_pattern(10));
  begin_message(6, /*id=*/4, wire_pattern(3), 10);
  inbox_.fail("rank 1 is gone");
  inbox_.fail("another reason");
  EXPECT_EQ(waiting->state, State::kFailed);
  EXPECT_EQ(waiting->error, "rank 1 is gone");
  EXPECT_FALSE(inbox_.is_open());
  EXPECT_EQ(inbox_.receive(1, 5, got.data(), 10)->state, State::kDone);
  EXPECT_EQ(got, wire_pattern(10));
  expect_throws<TransportError>([&] { inbox_.receive(1, 6, got.data(), 10); },
                                {"rank 1 is gone"});
}

}  // namespace
}  // namespace sheaf::comm
