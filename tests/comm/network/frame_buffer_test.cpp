#include "sheaf/comm/network/frame_buffer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace sheaf::comm {
namespace {

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

}  // namespace
}  // namespace sheaf::comm
