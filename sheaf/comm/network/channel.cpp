#include "sheaf/comm/network/channel.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sheaf/comm/network/cipher.hpp"

namespace sheaf::comm {
namespace {

ssize_t send_parts(int fd, const iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(count);
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Copies from the parts, in order, up to `most` bytes.
std::vector<std::byte> gather(const iovec* parts, int count, std::size_t most) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < count && bytes.size() < most; ++i) {
    const auto* from = static_cast<const std::byte*>(parts[i].iov_base);
    const std::size_t part = std::min(parts[i].iov_len, most - bytes.size());
    bytes.insert(bytes.end(), from, from + part);
  }
  return bytes;
}

// Copies to the parts, in order; returns the number of bytes.
std::size_t scatter(std::span<const std::byte> bytes, const iovec* parts,
                    int count) {
  std::size_t done = 0;
  for (int i = 0; i < count && done < bytes.size(); ++i) {
    const std::size_t part = std::min(parts[i].iov_len, bytes.size() - done);
    std::memcpy(parts[i].iov_base, bytes.data() + done, part);
    done += part;
  }
  return done;
}

}  // namespace

Channel::Channel() = default;
Channel::Channel(Socket socket) : socket_(std::move(socket)) {}
Channel::Channel(Socket socket, const SessionKeys& keys)
    : socket_(std::move(socket)), cipher_(std::make_unique<Cipher>(keys)) {}
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;
Channel::~Channel() = default;

ssize_t Channel::read(const iovec* parts, int count) {
  if (!cipher_) return ::readv(fd(), parts, count);
  while (!is_damaged_ && cipher_->plain().empty()) {
    const auto room = cipher_->room();
    const ssize_t got = ::recv(fd(), room.data(), room.size(), MSG_DONTWAIT);
    if (got <= 0) return got;
    cipher_->add(static_cast<std::size_t>(got));
    is_damaged_ = !cipher_->open();
  }
  if (is_damaged_) {
    errno = EBADMSG;
    return -1;
  }
  const std::size_t bytes = scatter(cipher_->plain(), parts, count);
  cipher_->use(bytes);
  is_damaged_ = !cipher_->open();  // reported by the next call
  return static_cast<ssize_t>(bytes);
}

bool Channel::has_buffered() const {
  return cipher_ && (is_damaged_ || !cipher_->plain().empty());
}

ssize_t Channel::write(const iovec* parts, int count) {
  if (!flush()) return -1;
  if (has_unsent()) {
    errno = EAGAIN;
    return -1;
  }
  if (!cipher_) return send_parts(fd(), parts, count);
  const auto plain = gather(parts, count, Cipher::kRecordBytes);
  cipher_->seal(plain, unsent_);
  if (!flush()) return -1;
  return static_cast<ssize_t>(plain.size());
}

bool Channel::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(fd(), unsent_.data(), unsent_.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return is_for_later(errno);
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
  }
  return true;
}

void Channel::begin_with(std::span<const std::uint8_t> bytes) {
  const auto first = std::as_bytes(bytes);
  unsent_.insert(unsent_.begin(), first.begin(), first.end());
}

}  // namespace sheaf::comm
