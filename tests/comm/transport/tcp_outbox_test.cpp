#include "sheaf/comm/transport/tcp_outbox.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/comm/network/socket_pair.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

using test::wire_pattern;
using test::WireBytes;
using State = TcpRequest::State;

class OutboxTest : public testing::Test {
 protected:
  OutboxTest() : OutboxTest(test::socket_pair()) {}

  // Reads frames until the peer has all bytes of a message in parts. The
  // connection is full from time to time.
  WireBytes read_parts(std::size_t bytes) {
    WireBytes all;
    while (all.size() < bytes) {
      EXPECT_TRUE(outbox_.advance());
      while (all.size() < bytes && peer_.has_data()) {
        WireBytes piece(bytes + 100 * sizeof(FrameHead));
        const ssize_t got = ::recv(peer_.fd(), piece.data(), piece.size(), 0);
        unread_.insert(unread_.end(), piece.begin(), piece.begin() + got);
        take_frames(all);
      }
    }
    return all;
  }

  Outbox outbox_;
  test::PeerEnd peer_;
  std::vector<FrameHead> heads_;  // of read_parts()

 private:
  explicit OutboxTest(std::pair<Socket, Socket> ends)
      : peer_(std::move(ends.second)) {
    outbox_.attach(Channel(std::move(ends.first)));
  }

  void take_frames(WireBytes& all) {
    FrameHead head;
    while (unread_.size() >= sizeof head) {
      std::memcpy(&head, unread_.data(), sizeof head);
      if (unread_.size() < sizeof head + head.part) return;
      heads_.push_back(head);
      const auto from = unread_.begin() + sizeof head;
      all.insert(all.end(), from, from + head.part);
      unread_.erase(unread_.begin(), from + head.part);
    }
  }

  WireBytes unread_;
};

TEST_F(OutboxTest, ASmallMessageIsWrittenAtOnce) {
  for (const std::size_t bytes : {0, 1, 1001}) {
    const WireBytes data = wire_pattern(bytes);
    EXPECT_EQ(outbox_.send(1, 5, data.data(), bytes), nullptr);
    EXPECT_FALSE(outbox_.is_busy());
    const auto [head, got] = peer_.read();
    EXPECT_EQ(head.kind, FrameKind::kWhole);
    EXPECT_EQ(head.tag, 5u);
    EXPECT_EQ(head.bytes, bytes);
    EXPECT_EQ(got, data);
  }
}

TEST_F(OutboxTest, ALargeMessageWaitsForItsGrant) {
  const std::size_t bytes = kEagerBytes + kPartBytes + 7;
  const WireBytes data = wire_pattern(bytes);
  const auto request = outbox_.send(1, 5, data.data(), bytes);
  ASSERT_TRUE(request);
  WireBytes got = read_parts(kEagerBytes);
  ASSERT_EQ(heads_.size(), 1u);
  EXPECT_EQ(heads_[0].kind, FrameKind::kBegin);
  EXPECT_EQ(heads_[0].bytes, bytes);
  ASSERT_TRUE(outbox_.advance());
  EXPECT_FALSE(peer_.has_data());
  EXPECT_TRUE(outbox_.is_busy());

  peer_.write({.kind = FrameKind::kGrant, .id = heads_[0].id});
  const WireBytes rest = read_parts(bytes - kEagerBytes);
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_TRUE(got == data);
  EXPECT_EQ(request->state, State::kDone);
  EXPECT_FALSE(outbox_.is_busy());
}

TEST_F(OutboxTest, ARefusedMessageIsDone) {
  const WireBytes data = wire_pattern(kEagerBytes + 1);
  const auto request = outbox_.send(1, 5, data.data(), data.size());
  read_parts(kEagerBytes);
  peer_.write({.kind = FrameKind::kRefuse, .id = heads_[0].id});
  ASSERT_TRUE(outbox_.advance());
  EXPECT_EQ(request->state, State::kDone);
  EXPECT_FALSE(peer_.has_data());
}

// After kSlow even one byte waits for its grant.
TEST_F(OutboxTest, ASlowPeerIsAskedBeforeEveryMessage) {
  peer_.write({.kind = FrameKind::kSlow});
  ASSERT_TRUE(outbox_.advance_readable());
  const WireBytes data = wire_pattern(1);
  const auto request = outbox_.send(1, 5, data.data(), 1);
  ASSERT_TRUE(request);
  const auto begin = peer_.read().first;
  EXPECT_EQ(begin.kind, FrameKind::kBegin);
  EXPECT_EQ(begin.part, 0u);
  peer_.write({.kind = FrameKind::kFast});
  ASSERT_TRUE(outbox_.advance_readable());
  EXPECT_EQ(outbox_.send(1, 6, data.data(), 1), nullptr);
  EXPECT_EQ(peer_.read().first.kind, FrameKind::kWhole);
  EXPECT_TRUE(request->is_in_progress());
  peer_.write({.kind = FrameKind::kGrant, .id = begin.id});
  ASSERT_TRUE(outbox_.advance());
  EXPECT_EQ(peer_.read().second, data);
  EXPECT_EQ(request->state, State::kDone);
}

// The program only sends, and does not wait for anything.
TEST_F(OutboxTest, ASlowPeerIsHeardWhileMessagesAreSent) {
  peer_.write({.kind = FrameKind::kSlow});
  const WireBytes data = wire_pattern(1 << 14);
  std::size_t sent = 0;
  for (FrameKind kind = FrameKind::kWhole; kind == FrameKind::kWhole;) {
    auto request = outbox_.send(1, 5, data.data(), data.size());
    kind = peer_.read().first.kind;
    sent += data.size();
    ASSERT_LE(sent, 2 * kUnansweredBytes);
    if (request) outbox_.abandon(request.release());
  }
}

TEST_F(OutboxTest, WhatWasSentBeforeTheConnectionIsQueued) {
  auto [mine, theirs] = test::socket_pair();
  test::PeerEnd peer(std::move(theirs));
  Outbox outbox;
  const WireBytes data = wire_pattern(10);
  const auto first = outbox.send(1, 5, data.data(), 10);
  auto second = outbox.send(1, 6, data.data(), 9);
  ASSERT_TRUE(first && second);
  outbox.beat();  // has no connection to show
  outbox.abandon(second.release());
  EXPECT_TRUE(outbox.advance());
  EXPECT_TRUE(first->is_in_progress());
  EXPECT_TRUE(outbox.is_busy());
  outbox.attach(Channel(std::move(mine)));
  EXPECT_EQ(peer.read().second, data);
  EXPECT_EQ(first->state, State::kDone);
  EXPECT_FALSE(outbox.is_busy());
}

TEST_F(OutboxTest, BeatsAreSentOnlyWhenNothingElseIs) {
  outbox_.beat();
  EXPECT_EQ(peer_.read().first.kind, FrameKind::kBeat);
  const WireBytes data = wire_pattern(kEagerBytes + 1);
  const auto request = outbox_.send(1, 5, data.data(), data.size());
  outbox_.beat();
  read_parts(kEagerBytes);
  EXPECT_FALSE(peer_.has_data());
  peer_.write({.kind = FrameKind::kGrant, .id = heads_[0].id});
  read_parts(1);
}

TEST_F(OutboxTest, AnAbandonedMessageIsCanceled) {
  const WireBytes data = wire_pattern(kEagerBytes + 1);
  auto request = outbox_.send(1, 5, data.data(), data.size());
  read_parts(kEagerBytes);
  outbox_.abandon(request.release());
  ASSERT_TRUE(outbox_.advance());
  const auto head = peer_.read().first;
  EXPECT_EQ(head.kind, FrameKind::kCancel);
  EXPECT_EQ(head.id, heads_[0].id);
  EXPECT_FALSE(outbox_.is_busy());
  // A grant that was under way concerns nobody.
  peer_.write({.kind = FrameKind::kGrant, .id = head.id});
  EXPECT_TRUE(outbox_.advance_readable());
  EXPECT_FALSE(peer_.has_data());
}

// The frame that was begun is completed from a copy.
TEST_F(OutboxTest, AMessageAbandonedWhileItIsWrittenArrivesWhole) {
  auto data = std::make_unique<WireBytes>(wire_pattern(kEagerBytes));
  const WireBytes expected = *data;
  auto request = outbox_.send(1, 5, data->data(), data->size());
  ASSERT_TRUE(request) << "the connection holds a whole message";
  outbox_.abandon(request.release());
  data->assign(data->size(), std::byte{0});
  EXPECT_TRUE(read_parts(kEagerBytes) == expected);
}

TEST_F(OutboxTest, AnswersThatBreakTheProtocolEndTheConnection) {
  const std::vector<FrameHead> wrong{
      {.kind = FrameKind::kGrant, .id = 1},  // a second one
      {.kind = FrameKind::kRefuse, .id = 1},
      {.kind = FrameKind::kGrant},
      {.kind = FrameKind::kSlow, .part = 1, .bytes = 1},
      {.kind = FrameKind::kWhole},  // not an answer
      {.kind = static_cast<FrameKind>(99)}};
  for (const FrameHead& head : wrong) {
    Outbox outbox;
    auto [mine, theirs] = test::socket_pair();
    outbox.attach(Channel(std::move(mine)));
    test::PeerEnd peer(std::move(theirs));
    peer.write({.kind = FrameKind::kSlow});
    ASSERT_TRUE(outbox.advance_readable());
    const WireBytes data = wire_pattern(1 << 20);
    const auto request = outbox.send(1, 5, data.data(), data.size());
    ASSERT_EQ(peer.read().first.id, 1u);
    peer.write({.kind = FrameKind::kGrant, .id = 7});  // of a canceled message
    peer.write({.kind = FrameKind::kGrant, .id = 1});
    ASSERT_TRUE(outbox.advance());
    peer.write_bytes(&head, sizeof head);
    EXPECT_FALSE(outbox.advance())
        << "kind " << static_cast<std::uint32_t>(head.kind);
  }
}

TEST_F(OutboxTest, AFailureEndsAllSends) {
  const WireBytes data = wire_pattern(kEagerBytes + 1);
  const auto begun = outbox_.send(1, 5, data.data(), data.size());
  const auto queued = outbox_.send(1, 6, data.data(), data.size());
  outbox_.fail("rank 1 is gone");
  for (const auto* request : {begun.get(), queued.get()}) {
    EXPECT_EQ(request->state, State::kFailed);
    EXPECT_EQ(request->error, "rank 1 is gone");
  }
  EXPECT_FALSE(outbox_.is_busy());
  expect_throws<TransportError>([&] { outbox_.send(1, 5, data.data(), 1); },
                                {"rank 1 is gone"});
}

TEST_F(OutboxTest, AClosedConnectionIsNoticed) {
  peer_.close();
  EXPECT_FALSE(outbox_.advance_readable());
}

TEST_F(OutboxTest, TheEndIsAnnounced) {
  outbox_.say_bye();
  EXPECT_FALSE(outbox_.is_busy());
  outbox_.close_writing();
  EXPECT_EQ(peer_.read().first.kind, FrameKind::kBye);
  char byte = 0;
  EXPECT_EQ(::recv(peer_.fd(), &byte, 1, 0), 0);
}

}  // namespace
}  // namespace sheaf::comm
