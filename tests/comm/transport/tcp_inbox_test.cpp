// Frames as the peer may split and order them.

#include "sheaf/comm/transport/tcp_inbox.hpp"

#include <gtest/gtest.h>

#include "tests/comm/transport/inbox_fixture.hpp"

namespace sheaf::comm {
namespace {

using test::wire_pattern;
using test::WireBytes;

class InboxFrames : public test::InboxTest {};

TEST_F(InboxFrames, AttachSendsTheAnswer) {
  Inbox inbox;
  EXPECT_FALSE(inbox.is_attached());
  EXPECT_FALSE(inbox.is_open());
  auto [mine, theirs] = test::socket_pair();
  inbox.attach(std::move(mine), Hello{.token = 77, .rank = 3, .size = 4});
  Hello answer;
  ASSERT_TRUE(
      read_within(theirs.fd(), &answer, sizeof answer,
                  std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  EXPECT_EQ(answer.token, 77u);
  EXPECT_EQ(answer.rank, 3);
  EXPECT_TRUE(inbox.is_open());
}

TEST_F(InboxFrames, ASecondConnectionIsClosed) {
  auto [mine, theirs] = test::socket_pair();
  inbox_.attach(std::move(mine), Hello{});
  char byte = 0;
  EXPECT_EQ(::recv(theirs.fd(), &byte, 1, 0), 0);
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
    ASSERT_TRUE(write_all(peer_.fd(), &byte, 1));
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
    inbox.attach(std::move(mine), Hello{});
    ASSERT_TRUE(write_all(theirs.fd(), &head, sizeof head));
    EXPECT_FALSE(inbox.advance())
        << "kind " << static_cast<std::uint32_t>(head.kind);
  }
}

TEST_F(InboxFrames, MorePartsThanTheMessageHasEndTheConnection) {
  begin_message(/*tag=*/5, /*id=*/1, wire_pattern(40), 50);
  const FrameHead more{
      .kind = FrameKind::kMore, .tag = 5, .id = 1, .part = 11, .bytes = 50};
  ASSERT_TRUE(write_all(peer_.fd(), &more, sizeof more));
  EXPECT_FALSE(inbox_.advance());
}

TEST_F(InboxFrames, AnIdThatIsInUseEndsTheConnection) {
  begin_message(/*tag=*/5, /*id=*/1, wire_pattern(40), 50);
  const FrameHead again{
      .kind = FrameKind::kBegin, .tag = 6, .id = 1, .part = 1, .bytes = 50};
  ASSERT_TRUE(write_all(peer_.fd(), &again, sizeof again));
  EXPECT_FALSE(inbox_.advance());
}

}  // namespace
}  // namespace sheaf::comm
