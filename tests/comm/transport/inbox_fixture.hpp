#pragma once
// An inbox and the other end of its connection.

#include <gtest/gtest.h>

#include "sheaf/comm/transport/tcp_inbox.hpp"
#include "tests/comm/network/socket_pair.hpp"

namespace sheaf::test {

class InboxTest : public testing::Test {
 protected:
  InboxTest() : InboxTest(socket_pair()) {}

  void whole_message(comm::Tag tag, const WireBytes& data) {
    const auto bytes = static_cast<std::uint32_t>(data.size());
    peer_.write({.kind = comm::FrameKind::kWhole,
                 .tag = tag,
                 .part = bytes,
                 .bytes = bytes},
                data);
    EXPECT_TRUE(inbox_.advance());
  }
  void begin_message(comm::Tag tag, std::uint32_t id, const WireBytes& part,
                     std::size_t bytes) {
    peer_.write({.kind = comm::FrameKind::kBegin,
                 .tag = tag,
                 .id = id,
                 .part = static_cast<std::uint32_t>(part.size()),
                 .bytes = bytes},
                part);
    EXPECT_TRUE(inbox_.advance());
  }
  void more_of(std::uint32_t id, const WireBytes& part, std::size_t bytes) {
    peer_.write({.kind = comm::FrameKind::kMore,
                 .id = id,
                 .part = static_cast<std::uint32_t>(part.size()),
                 .bytes = bytes},
                part);
    EXPECT_TRUE(inbox_.advance());
  }

  comm::Inbox inbox_;
  PeerEnd peer_;

 private:
  explicit InboxTest(std::pair<comm::Socket, comm::Socket> ends)
      : peer_(std::move(ends.second)) {
    inbox_.attach(comm::Channel(std::move(ends.first)));
  }
};

}  // namespace sheaf::test
