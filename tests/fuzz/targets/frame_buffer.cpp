// Frames of a meeting and of the monitors, in a stream that is cut anywhere. A
// simple reading of the whole stream says what must come out.
// parser: sheaf/comm/network/frame_link.cpp
#include <sys/socket.h>

#include "sheaf/comm/network/frame_link.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace {

using sheaf::comm::FrameBuffer;
using sheaf::comm::FrameHeader;
using sheaf::comm::FrameLink;
using sheaf::fuzz::ByteSource;

constexpr std::size_t kMostFrameBytes = 300;

struct PlainFrame {
  std::uint32_t kind;
  std::string payload;
  bool operator==(const PlainFrame&) const = default;
};
struct PlainFrames {
  std::vector<PlainFrame> frames{};
  bool is_invalid = false;
};

PlainFrames frames_of(std::string_view stream) {
  PlainFrames result;
  FrameHeader header;
  while (stream.size() >= sizeof header) {
    std::memcpy(&header, stream.data(), sizeof header);
    result.is_invalid = header.bytes > kMostFrameBytes;
    stream.remove_prefix(sizeof header);
    if (result.is_invalid || stream.size() < header.bytes) break;
    result.frames.push_back(
        {header.kind, std::string(stream.substr(0, header.bytes))});
    stream.remove_prefix(header.bytes);
  }
  return result;
}

PlainFrame plain(const FrameBuffer::Frame& frame) {
  return {frame.kind,
          std::string(reinterpret_cast<const char*>(frame.payload.data()),
                      frame.payload.size())};
}

void check_buffer(ByteSource source, std::uint8_t step) {
  FrameBuffer buffer(kMostFrameBytes);
  std::string stream;
  std::vector<PlainFrame> got;
  while (!source.is_empty()) {
    const auto piece = source.take(1 + step);
    stream += sheaf::fuzz::text_of(piece);
    buffer.add(std::as_bytes(piece));
    while (const auto frame = buffer.next()) got.push_back(plain(*frame));
  }
  const PlainFrames expected = frames_of(stream);
  SHEAF_FUZZ_CHECK(got == expected.frames);
  SHEAF_FUZZ_CHECK(buffer.is_invalid() == expected.is_invalid);
}

// The link must also answer, and report the end of the stream.
void check_link(ByteSource source, std::uint8_t step) {
  int ends[2];
  SHEAF_FUZZ_CHECK(
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  sheaf::comm::Socket other(ends[1]);
  FrameLink link(sheaf::comm::Channel(sheaf::comm::Socket(ends[0])),
                 kMostFrameBytes);
  std::string stream;
  std::vector<PlainFrame> got;
  const auto read = [&] {
    return link.read([&](const auto& frame) {
      got.push_back(plain(frame));
      link.send(frame.kind, frame.payload);
    });
  };
  bool is_open = true;
  while (is_open && !source.is_empty()) {
    const auto piece = source.take(1 + 16 * std::size_t{step});
    if (::send(other.fd(), piece.data(), piece.size(), MSG_DONTWAIT) !=
        static_cast<ssize_t>(piece.size()))
      break;
    stream += sheaf::fuzz::text_of(piece);
    is_open = read();
    SHEAF_FUZZ_CHECK(link.keep_alive(std::chrono::steady_clock::now()));
  }
  PlainFrames expected = frames_of(stream);
  std::erase_if(expected.frames, [](const PlainFrame& frame) {
    return frame.kind == FrameLink::kBeat;
  });
  SHEAF_FUZZ_CHECK(got == expected.frames);
  SHEAF_FUZZ_CHECK(is_open == !expected.is_invalid);
  other.close();
  SHEAF_FUZZ_CHECK(!read());
}

}  // namespace

SHEAF_FUZZ_TARGET(frame_buffer) {
  ByteSource source(input);
  const std::uint8_t step = source.byte();
  check_buffer(source, step);
  check_link(source, step);
}
