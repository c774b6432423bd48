#include "sheaf/cli/launch/frame.hpp"

#include <gtest/gtest.h>

namespace sheaf::cli {
namespace {

struct Stream {
  explicit Stream(const std::string& token)
      : parser(
            token, [this](std::string_view bytes) { plain += bytes; },
            [this](const Frame& frame) { frames.push_back(frame); }) {}

  std::string plain;
  std::vector<Frame> frames;
  FrameParser parser;
};

const Frame kOne{FrameKind::kReport, 2, "host 1 2 3"};
const Frame kTwo{FrameKind::kOutput, 11, std::string("a\0\x1e\nb", 5)};

TEST(Frame, ComesOutOfAnyCutOfTheStream) {
  const std::string token = new_token();
  const std::string text = "before" + encode_frame(token, kOne) + "mid\x1e" +
                           encode_frame(token, kTwo) + "after\x1e";
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    Stream stream(token);
    for (std::size_t at = 0; at < text.size(); at += cut)
      stream.parser.feed(std::string_view(text).substr(at, cut));
    stream.parser.finish();
    EXPECT_EQ(stream.plain,
              "beforemid\x1e"
              "after\x1e")
        << "pieces of " << cut;
    EXPECT_EQ(stream.frames, (std::vector{kOne, kTwo})) << "pieces of " << cut;
  }
}

TEST(Frame, OtherTokensArePlain) {
  const std::string text = encode_frame("0123456789abcdef", kOne);
  Stream stream("fedcba9876543210");
  stream.parser.feed(text);
  stream.parser.finish();
  EXPECT_EQ(stream.plain, text);
  EXPECT_TRUE(stream.frames.empty());
}

TEST(Frame, PlainBytesAreNotHeldBack) {
  Stream stream("token");
  stream.parser.feed("a prompt without an end: ");
  EXPECT_EQ(stream.plain, "a prompt without an end: ");
  stream.parser.feed("\x1etok");
  EXPECT_EQ(stream.plain, "a prompt without an end: ");
  stream.parser.feed("!");
  EXPECT_EQ(stream.plain, "a prompt without an end: \x1etok!");
}

TEST(Frame, ATornFrameIsPlainAndTheNextIsFound) {
  const std::string whole = encode_frame("token", kOne);
  const std::string torn = whole.substr(0, whole.size() - 4) + "other bytes";
  Stream stream("token");
  stream.parser.feed(torn + whole);
  stream.parser.finish();
  EXPECT_EQ(stream.plain, torn);
  EXPECT_EQ(stream.frames, std::vector{kOne});
}

TEST(Frame, TheLargestFitsOnePieceOfMpirun) {
  const Frame largest{FrameKind::kError, 1 << 20,
                      std::string(kMaxPayloadBytes, 'x')};
  EXPECT_LE(encode_frame(new_token(), largest).size(), kMaxFrameBytes);
}

TEST(Frame, TokensDiffer) { EXPECT_NE(new_token(), new_token()); }

}  // namespace
}  // namespace sheaf::cli
