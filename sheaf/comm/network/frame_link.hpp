#pragma once
// Frames: small messages in a stream of bytes, each with a kind. By them ranks
// meet and hosts monitor each other.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "sheaf/comm/network/ack_watch.hpp"
#include "sheaf/comm/network/channel.hpp"

namespace sheaf::comm {

struct FrameHeader {
  std::uint32_t kind = 0;
  std::uint32_t bytes = 0;  // that follow the header
};

// Cuts a stream of bytes into frames.
class FrameBuffer {
 public:
  // Frames with more bytes are invalid.
  explicit FrameBuffer(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  void add(std::span<const std::byte> bytes);

  struct Frame {
    std::uint32_t kind;
    std::span<const std::byte> payload;  // until the next call of add()
  };
  // The next complete frame, if there is one.
  std::optional<Frame> next();
  // Whether the stream contained an invalid frame; next() then returns nothing.
  bool is_invalid() const { return is_invalid_; }

 private:
  const std::size_t most_bytes_;
  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;  // of the next frame
  bool is_invalid_ = false;
};

// A channel that carries frames, with heartbeats. Never blocks. One thread at a
// time.
class FrameLink {
 public:
  // The kind of heartbeats, which are not passed to the reader.
  static constexpr std::uint32_t kBeat = 0;

  // Frames with more than `most_bytes` bytes are invalid.
  FrameLink(Channel channel, std::size_t most_bytes);

  int fd() const { return channel_.fd(); }
  bool is_open() const { return static_cast<bool>(channel_); }
  void close() noexcept { channel_.close(); }

  // Queues a frame and sends what the connection takes. Errors show in the next
  // read().
  void send(std::uint32_t kind, std::span<const std::byte> payload = {});
  // Whether there are bytes that may still be sent: none if the peer has closed
  // the connection.
  bool has_unsent() const;
  // Whether the peer has not read for so long that only what must not be lost
  // should be sent.
  bool is_congested() const;
  // Sends queued frames and, when one is due, a heartbeat. Returns false if the
  // host of the peer is cut off.
  bool keep_alive(std::chrono::steady_clock::time_point now);

  // Calls handle(frame) for each frame that has arrived. Returns false if the
  // connection is closed, broken, or sent something invalid.
  using Handle = std::function<void(const FrameBuffer::Frame& frame)>;
  bool read(const Handle& handle);

 private:
  void flush();

  Channel channel_;
  FrameBuffer frames_;
  AckWatch watch_;
  std::vector<std::byte> queue_;  // bytes that the channel has not accepted
  bool is_broken_ = false;        // nothing can be sent any more
  std::chrono::steady_clock::time_point last_beat_{};
};

}  // namespace sheaf::comm
