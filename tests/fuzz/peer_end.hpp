#pragma once
// The other end of a connection, in the hands of a fuzz target.

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "sheaf/comm/network/socket.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace sheaf::fuzz {

using Bytes = std::vector<std::byte>;

inline std::pair<comm::Socket, comm::Socket> make_socket_pair() {
  int ends[2] = {-1, -1};
  SHEAF_FUZZ_CHECK(
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  return {comm::Socket(ends[0]), comm::Socket(ends[1])};
}

class PeerEnd {
 public:
  explicit PeerEnd(comm::Socket socket) : socket_(std::move(socket)) {}

  void close() { socket_.close(); }
  // Returns whether all bytes fit into the socket; otherwise none were written.
  bool write(const void* data, std::size_t bytes) {
    const ssize_t sent =
        ::send(socket_.fd(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    SHEAF_FUZZ_CHECK(sent <= 0 || static_cast<std::size_t>(sent) == bytes);
    return sent >= 0;
  }
  // What has arrived, up to `most` bytes.
  Bytes read(std::size_t most) {
    Bytes bytes(std::min<std::size_t>(most, 1 << 16));
    const ssize_t got =
        ::recv(socket_.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }

 private:
  comm::Socket socket_;
};

// Whether a socket has bytes, or its end, to read.
inline bool has_news(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

// Contents of the message `number`, at most 2 MiB.
inline const std::byte* pattern(std::size_t number) {
  constexpr std::size_t kNumbers = 1024;
  static const Bytes all = [] {
    Bytes bytes((2 << 20) + kNumbers);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
    return bytes;
  }();
  return all.data() + number % kNumbers;
}

}  // namespace sheaf::fuzz
