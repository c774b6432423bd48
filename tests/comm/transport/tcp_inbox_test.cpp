// Frames as the peer may split and order them.

#include "sheaf/comm/transport/tcp_inbox.hpp"

#include <gtest/gtest.h>

#include "tests/comm/transport/inbox_fixture.hpp"

namespace sheaf::comm {
namespace {

using test::wire_pattern;
using test::WireBytes;

class InboxFrames : public test::InboxTest {};

TEST_F(InboxFrames, AttachSendsTheEndOfTheHandshake) {
  Inbox inbox;
  EXPECT_FALSE(inbox.is_attached());
  EXPECT_FALSE(inbox.is_open());
  auto [mine, theirs] = test::socket_pair();
  Channel channel(std::move(mine));
  const std::uint8_t accepted[] = {7, 8, 9};
  channel.begin_with(accepted);
  inbox.attach(std::move(channel));
  std::uint8_t got[3] = {};
  ASSERT_EQ(::recv(theirs.fd(), got, sizeof got, 0), ssize_t{sizeof got});
  EXPECT_EQ(got[2], 9);
  EXPECT_TRUE(inbox.is_open());
}

TEST_F(InboxFrames, ASecondConnectionIsClosed) {
  auto [mine, theirs] = test::socket_pair();
  inbox_.attach(Channel(std::move(mine)));
  char byte = 0;
  EXPECT_EQ(::recv(theirs.fd(), &byte, 1, 0), 0);
}

TEST_F(InboxFrames, BeatsAreIgnored) {
  peer_.write({.kind = FrameKind::kBeat});
  whole_message(5, wire_pattern(1));
  EXPECT_EQ(inbox_.probe(5), 1u);
}

// It goes on, although it was requested to ask before each message.
TEST_F(InboxFrames, APeerThatSendsTooMuchIsDisconnected) {
  const WireBytes data = wire_pattern(64 << 10);
  const auto bytes = static_cast<std::uint32_t>(data.size());
  std::size_t sent = 0;
  do {
    peer_.write({.kind = FrameKind::kWhole, .part = bytes, .bytes = bytes},
                data);
    sent += bytes;
    ASSERT_LE(sent, kMostUnexpectedBytes + 2 * bytes);
  } while (inbox_.advance());
  EXPECT_GE(sent, kMostUnexpectedBytes);
  EXPECT_TRUE(inbox_.has_too_many());
}

// Every byte comes alone, so that heads and contents are cut everywhere.
TEST_F(InboxFrames, MayComeByteByByte) {
  const WireBytes data = wire_pattern(37);
  WireBytes got(37);
  auto request = inbox_.receive(1, 5, got.data(), got.size());
  const FrameHead head{
      .kind = FrameKind::kWhole, .tag = 5, .part = 37, .bytes = 37};
  WireBytes wire(sizeof head);
  std::memcpy(wire.data(), &head, sizeof head);
  wire.insert(wire.end(), data.begin(), data.end());
  for (const std::byte& byte : wire) {
    EXPECT_TRUE(request->is_in_progress());
    peer_.write_bytes(&byte, 1);
    ASSERT_TRUE(inbox_.advance());
  }
  EXPECT_EQ(request->state, TcpRequest::State::kDone);
  EXPECT_EQ(got, data);
}

TEST_F(InboxFrames, SeveralMayComeAtOnce) {
  for (std::uint32_t i = 0; i < 10; ++i)
    peer_.write({.kind = FrameKind::kWhole, .tag = i, .part = i, .bytes = i},
                wire_pattern(i));
  ASSERT_TRUE(inbox_.advance());
  for (std::uint32_t i = 0; i < 10; ++i) {
    WireBytes got(i);
    auto request = inbox_.receive(1, i, got.data(), i);
    EXPECT_FALSE(request->is_in_progress()) << i;
    EXPECT_EQ(got, wire_pattern(i));
  }
}

// The parts of two messages alternate.
TEST_F(InboxFrames, PartsGoToTheirMessages) {
  const WireBytes data = wire_pattern(100);
  WireBytes a(100);
  WireBytes b(100);
  auto first = inbox_.receive(1, 5, a.data(), 100);
  auto second = inbox_.receive(1, 6, b.data(), 100);
  const WireBytes early(data.begin(), data.begin() + 40);
  const WireBytes late(data.begin() + 40, data.end());
  begin_message(/*tag=*/5, /*id=*/1, early, 100);
  begin_message(/*tag=*/6, /*id=*/2, early, 100);
  EXPECT_EQ(peer_.read().first.kind, FrameKind::kGrant);
  EXPECT_EQ(peer_.read().first.id, 2u);
  more_of(/*id=*/2, late, 100);
  EXPECT_TRUE(first->is_in_progress());
  EXPECT_FALSE(second->is_in_progress());
  more_of(/*id=*/1, late, 100);
  EXPECT_FALSE(first->is_in_progress());
  EXPECT_EQ(a, data);
  EXPECT_EQ(b, data);
}

TEST_F(InboxFrames, AByeIsNoBrokenConnection) {
  peer_.write({.kind = FrameKind::kBye});
  EXPECT_TRUE(inbox_.advance());
  EXPECT_TRUE(inbox_.has_left());
  EXPECT_FALSE(inbox_.is_open());
  peer_.close();
  EXPECT_FALSE(inbox_.advance());
}

TEST_F(InboxFrames, ThatBreakTheProtocolEndTheConnection) {
  const std::uint32_t much = kEagerBytes + 1;
  const std::vector<FrameHead> wrong{
      {.kind = FrameKind::kWhole, .part = 2, .bytes = 1},
      {.kind = FrameKind::kBegin, .id = 1, .part = much, .bytes = much},
      {.kind = FrameKind::kMore, .id = 9, .part = 1, .bytes = 1},
      {.kind = FrameKind::kGrant},  // an answer, in the wrong direction
      {.kind = static_cast<FrameKind>(99)}};
  for (const FrameHead& head : wrong) {
    Inbox inbox;
    auto [mine, theirs] = test::socket_pair();
    inbox.attach(Channel(std::move(mine)));
    test::PeerEnd(std::move(theirs)).write_bytes(&head, sizeof head);
    EXPECT_FALSE(inbox.advance())
        << "kind " << static_cast<std::uint32_t>(head.kind);
  }
}

TEST_F(InboxFrames, MorePartsThanTheMessageHasEndTheConnection) {
  begin_message(/*tag=*/5, /*id=*/1, wire_pattern(40), 50);
  const FrameHead more{
      .kind = FrameKind::kMore, .tag = 5, .id = 1, .part = 11, .bytes = 50};
  peer_.write_bytes(&more, sizeof more);
  EXPECT_FALSE(inbox_.advance());
}

TEST_F(InboxFrames, AnIdThatIsInUseEndsTheConnection) {
  begin_message(/*tag=*/5, /*id=*/1, wire_pattern(40), 50);
  const FrameHead again{
      .kind = FrameKind::kBegin, .tag = 6, .id = 1, .part = 1, .bytes = 50};
  peer_.write_bytes(&again, sizeof again);
  EXPECT_FALSE(inbox_.advance());
}

// Its memory has room for the first part only.
TEST_F(InboxFrames, APartBeforeTheGrantEndsTheConnection) {
  begin_message(/*tag=*/5, /*id=*/1, wire_pattern(10), kEagerBytes);
  const FrameHead more{.kind = FrameKind::kMore,
                       .tag = 5,
                       .id = 1,
                       .part = 1000,
                       .bytes = kEagerBytes};
  peer_.write_bytes(&more, sizeof more);
  EXPECT_FALSE(inbox_.advance());
}

// Whole messages have no id; a wrong one must not end the message that has it.
TEST_F(InboxFrames, AWholeMessageDoesNotEndOneInParts) {
  const WireBytes data = wire_pattern(50);
  WireBytes got(50);
  const auto request = inbox_.receive(1, 5, got.data(), got.size());
  begin_message(/*tag=*/5, /*id=*/1, WireBytes(data.begin(), data.begin() + 40),
                50);
  peer_.write({.kind = FrameKind::kWhole, .tag = 6, .id = 1});
  EXPECT_TRUE(inbox_.advance());
  more_of(/*id=*/1, WireBytes(data.begin() + 40, data.end()), 50);
  EXPECT_EQ(request->state, TcpRequest::State::kDone);
  EXPECT_EQ(got, data);
}

TEST_F(InboxFrames, AnEmptyPartEndsTheConnection) {
  WireBytes got(50);
  const auto request = inbox_.receive(1, 5, got.data(), got.size());
  begin_message(/*tag=*/5, /*id=*/1, wire_pattern(40), 50);
  const FrameHead more{
      .kind = FrameKind::kMore, .tag = 5, .id = 1, .part = 0, .bytes = 50};
  peer_.write_bytes(&more, sizeof more);
  EXPECT_FALSE(inbox_.advance());
}

TEST_F(InboxFrames, ManyMessagesThatNobodyReceivesEndTheConnection) {
  const FrameHead empty{.kind = FrameKind::kWhole, .tag = 5};
  const std::vector<FrameHead> some(kMostUnexpectedCount / 1024, empty);
  bool is_open = true;
  for (int i = 0; i < 1024; ++i) {
    peer_.write_bytes(some.data(), some.size() * sizeof empty);
    is_open = is_open && inbox_.advance();
  }
  EXPECT_TRUE(is_open);
  EXPECT_FALSE(inbox_.has_too_many());
  peer_.write_bytes(&empty, sizeof empty);
  EXPECT_FALSE(inbox_.advance());
  EXPECT_TRUE(inbox_.has_too_many());
}

}  // namespace
}  // namespace sheaf::comm
