#pragma once
// A connection between two ranks that have authenticated each other: a stream
// of bytes in each direction, encrypted if the job asks for it. Nonblocking;
// one thread at a time.

#include <sys/uio.h>

#include <memory>
#include <span>
#include <vector>

#include "sheaf/comm/network/handshake.hpp"
#include "sheaf/comm/network/socket.hpp"

namespace sheaf::comm {

class Cipher;

class Channel {
 public:
  Channel();
  explicit Channel(Socket socket);
  // Encrypts both directions.
  Channel(Socket socket, const SessionKeys& keys);
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;
  ~Channel();

  explicit operator bool() const { return static_cast<bool>(socket_); }
  int fd() const { return socket_.fd(); }
  const Socket& socket() const { return socket_; }
  void close() noexcept { socket_.close(); }

  // Like readv(): the number of bytes, 0 at the end of the stream, or -1 with
  // errno set, EAGAIN if there are none yet. EBADMSG: encrypted data was
  // modified.
  ssize_t read(const iovec* parts, int count);
  // Whether read() has bytes that poll() does not know about.
  bool has_buffered() const;

  // Like writev(): the number of bytes accepted, or -1 with errno set. They may
  // still have to be sent: see has_unsent().
  ssize_t write(const iovec* parts, int count);
  bool has_unsent() const { return !unsent_.empty(); }
  // Sends as much as the connection takes. Returns false if it is broken.
  bool flush();

  // Bytes that precede all others and are not encrypted: the end of a
  // handshake. Sent by the next flush().
  void begin_with(std::span<const std::uint8_t> bytes);

 private:
  Socket socket_;
  std::vector<std::byte> unsent_;
  std::unique_ptr<Cipher> cipher_;  // null: not encrypted
  bool is_damaged_ = false;
};

}  // namespace sheaf::comm
