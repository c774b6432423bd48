#pragma once
// A channel that carries frames, with heartbeats: for the messages by which
// ranks meet and by which hosts monitor each other. Never blocks. One thread at
// a time.

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sheaf/comm/network/ack_watch.hpp"
#include "sheaf/comm/network/channel.hpp"
#include "sheaf/comm/network/frame_buffer.hpp"

namespace sheaf::comm {

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
  std::chrono::steady_clock::time_point last_beat_{};
};

}  // namespace sheaf::comm
