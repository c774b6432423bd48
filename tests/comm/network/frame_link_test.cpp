#include "sheaf/comm/network/frame_link.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/comm/network/loopback.hpp"
#include "tests/comm/network/socket_pair.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::steady_clock;

class FrameLinks : public testing::Test {
 protected:
  FrameLinks() : FrameLinks(test::socket_pair()) {}

  std::string read(FrameLink& link) {
    std::string text;
    is_open_ = link.read([&](const FrameBuffer::Frame& frame) {
      text += std::to_string(frame.kind) + ":" +
              std::to_string(frame.payload.size()) + ";";
    });
    return text;
  }

  FrameLink mine_;
  FrameLink theirs_;
  bool is_open_ = true;

 private:
  explicit FrameLinks(std::pair<Socket, Socket> ends)
      : mine_(Channel(std::move(ends.first)), 1 << 20),
        theirs_(Channel(std::move(ends.second)), 1000) {}
};

TEST_F(FrameLinks, CarryFrames) {
  const std::string payload(321, 'x');
  mine_.send(4, std::as_bytes(std::span(payload)));
  mine_.send(5);
  EXPECT_EQ(read(theirs_), "4:321;5:0;");
  theirs_.send(6);
  EXPECT_EQ(read(mine_), "6:0;");
  EXPECT_TRUE(is_open_);
}

TEST_F(FrameLinks, DoNotPassHeartbeatsOn) {
  EXPECT_TRUE(mine_.keep_alive(steady_clock::now()));
  char byte = 0;
  EXPECT_EQ(::recv(theirs_.fd(), &byte, 1, MSG_PEEK), 1);
  EXPECT_EQ(read(theirs_), "");
  EXPECT_TRUE(is_open_);
}

TEST_F(FrameLinks, QueueWhatTheConnectionDoesNotTake) {
  const std::string payload(1000, 'x');
  int sent = 0;
  for (; !mine_.has_unsent(); ++sent)
    mine_.send(1, std::as_bytes(std::span(payload)));
  mine_.send(2);
  std::string text;
  while (text.find("2:0;") == std::string::npos) {
    EXPECT_TRUE(mine_.keep_alive(steady_clock::now()));
    text += read(theirs_);
  }
  std::string expected;
  for (int i = 0; i < sent; ++i) expected += "1:1000;";
  EXPECT_EQ(text, expected + "2:0;");
}

TEST_F(FrameLinks, AreCongestedIfTheOtherSideDoesNotRead) {
  const std::vector<std::byte> payload(1000);
  EXPECT_FALSE(mine_.is_congested());
  for (int i = 0; i < 5000; ++i) mine_.send(1, payload);
  EXPECT_TRUE(mine_.is_congested());
  while (mine_.has_unsent()) {
    EXPECT_TRUE(mine_.keep_alive(steady_clock::now()));
    read(theirs_);
  }
  EXPECT_FALSE(mine_.is_congested());
}

TEST_F(FrameLinks, EndWithTheConnection) {
  mine_.send(1);
  mine_.close();
  EXPECT_FALSE(mine_.is_open());
  EXPECT_EQ(read(theirs_), "1:0;");
  EXPECT_EQ(read(theirs_), "");
  EXPECT_FALSE(is_open_);
}

TEST_F(FrameLinks, EndWithAnInvalidFrame) {
  mine_.send(1, std::vector<std::byte>(1001));
  read(theirs_);
  EXPECT_FALSE(is_open_);
}

}  // namespace
}  // namespace sheaf::comm
