#include "sheaf/comm/network/frame_link.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/comm/network/loopback.hpp"
#include "tests/comm/network/socket_pair.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::steady_clock;

std::string frame(std::uint32_t kind, const std::string& payload) {
  const FrameHeader header{kind, static_cast<std::uint32_t>(payload.size())};
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes + payload;
}

void add(FrameBuffer& buffer, const std::string& bytes) {
  buffer.add(std::as_bytes(std::span(bytes)));
}

std::string all_frames(FrameBuffer& buffer) {
  std::string text;
  while (const auto one = buffer.next())
    text += std::to_string(one->kind) + ":" +
            std::string(reinterpret_cast<const char*>(one->payload.data()),
                        one->payload.size()) +
            ";";
  return text;
}

TEST(FrameBuffer, CutsAStreamAnywhere) {
  const std::string stream = frame(1, "one") + frame(2, "") + frame(3, "three");
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    FrameBuffer buffer(100);
    std::string text;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      add(buffer, stream.substr(at, step));
      text += all_frames(buffer);
    }
    EXPECT_EQ(text, "1:one;2:;3:three;") << step;
    EXPECT_FALSE(buffer.is_invalid());
  }
}

TEST(FrameBuffer, RefusesFramesThatAreTooLong) {
  FrameBuffer buffer(5);
  add(buffer, frame(1, "12345") + frame(2, "123456"));
  EXPECT_EQ(all_frames(buffer), "1:12345;");
  EXPECT_TRUE(buffer.is_invalid());
  add(buffer, frame(1, ""));
  EXPECT_FALSE(buffer.next());
}

// Its length alone makes it invalid: nobody waits for the contents.
TEST(FrameBuffer, RefusesALengthBeforeTheContents) {
  FrameBuffer buffer(5);
  const FrameHeader header{1, 0xffffffff};
  buffer.add(std::as_bytes(std::span(&header, 1)));
  EXPECT_FALSE(buffer.next());
  EXPECT_TRUE(buffer.is_invalid());
}

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

// Otherwise whoever waits until all is sent would wait in vain.
TEST_F(FrameLinks, HaveNothingToSendToAPeerThatHasClosed) {
  const std::vector<std::byte> payload(1000);
  while (!mine_.has_unsent()) mine_.send(1, payload);
  theirs_.close();
  mine_.keep_alive(steady_clock::now());
  EXPECT_FALSE(mine_.has_unsent());
  mine_.send(1, payload);
  EXPECT_FALSE(mine_.has_unsent());
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
