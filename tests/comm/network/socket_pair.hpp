#pragma once
// The two ends of a connection, and the frames of the wire protocol on it.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>
#include <vector>

#include "sheaf/comm/network/channel.hpp"
#include "sheaf/comm/transport/tcp_wire.hpp"

namespace sheaf::test {

using WireBytes = std::vector<std::byte>;

inline std::pair<comm::Socket, comm::Socket> socket_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  return {comm::Socket(ends[0]), comm::Socket(ends[1])};
}

// WireBytes that differ from their neighbors.
inline WireBytes wire_pattern(std::size_t bytes) {
  WireBytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(i * 7 + i / 251);
  return data;
}

// The peer's end of a connection.
class PeerEnd {
 public:
  explicit PeerEnd(comm::Socket socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.fd(); }
  void close() { socket_.close(); }

  // A frame and the bytes that follow it; small enough for the send buffer.
  void write(const comm::FrameHead& head, const WireBytes& data = {}) {
    ASSERT_EQ(head.part, data.size());
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(30);
    ASSERT_TRUE(comm::write_within(fd(), &head, sizeof head, deadline));
    ASSERT_TRUE(comm::write_within(fd(), data.data(), data.size(), deadline));
  }

  // The next frame with its bytes. Frames without contents have `part` 0.
  std::pair<comm::FrameHead, WireBytes> read() {
    comm::FrameHead head{};
    WireBytes data;
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(30);
    EXPECT_TRUE(comm::read_within(fd(), &head, sizeof head, deadline));
    data.resize(head.part);
    EXPECT_TRUE(comm::read_within(fd(), data.data(), data.size(), deadline));
    return {head, std::move(data)};
  }

  // Bytes that may be no frame; few enough for the send buffer.
  void write_bytes(const void* data, std::size_t bytes) {
    EXPECT_TRUE(comm::write_within(
        fd(), data, bytes,
        std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  }

  bool has_data() const {
    char byte = 0;
    return ::recv(fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
  }

 private:
  comm::Socket socket_;
};

}  // namespace sheaf::test
