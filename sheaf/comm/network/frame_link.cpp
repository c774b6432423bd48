#include "sheaf/comm/network/frame_link.hpp"

#include <array>
#include <cerrno>
#include <cstring>

namespace sheaf::comm {
namespace {

constexpr auto kBeatPeriod = std::chrono::milliseconds(200);
// A stopped peer reads nothing for as long as it is stopped. Heartbeats, for
// example, are not queued behind this many bytes.
constexpr std::size_t kMostQueued = std::size_t{1} << 20;

}  // namespace

void FrameBuffer::add(std::span<const std::byte> bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<long>(at_));
  at_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::optional<FrameBuffer::Frame> FrameBuffer::next() {
  FrameHeader header;
  const std::size_t left = bytes_.size() - at_;
  if (is_invalid_ || left < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes_.data() + at_, sizeof header);
  is_invalid_ = header.bytes > most_bytes_;
  if (is_invalid_ || left - sizeof header < header.bytes) return std::nullopt;
  const auto payload = std::span<const std::byte>(bytes_).subspan(
      at_ + sizeof header, header.bytes);
  at_ += sizeof header + header.bytes;
  return Frame{header.kind, payload};
}

FrameLink::FrameLink(Channel channel, std::size_t most_bytes)
    : channel_(std::move(channel)),
      frames_(most_bytes),
      watch_(host_timeout()) {
  flush();
}

void FrameLink::send(std::uint32_t kind, std::span<const std::byte> payload) {
  const FrameHeader header{kind, static_cast<std::uint32_t>(payload.size())};
  const auto bytes = bytes_of(header);
  queue_.insert(queue_.end(), bytes.begin(), bytes.end());
  queue_.insert(queue_.end(), payload.begin(), payload.end());
  flush();
}

bool FrameLink::has_unsent() const {
  return !is_broken_ && (!queue_.empty() || channel_.has_unsent());
}

bool FrameLink::is_congested() const { return queue_.size() >= kMostQueued; }

void FrameLink::flush() {
  if (!channel_) return;
  is_broken_ = is_broken_ || !channel_.flush();
  while (!is_broken_ && !queue_.empty()) {
    const iovec part{queue_.data(), queue_.size()};
    const ssize_t sent = channel_.write(&part, 1);
    is_broken_ = sent < 0 && !is_for_later(errno);
    if (sent <= 0) return;
    queue_.erase(queue_.begin(), queue_.begin() + sent);
  }
}

bool FrameLink::keep_alive(std::chrono::steady_clock::time_point now) {
  if (!channel_) return true;
  if (now - last_beat_ >= kBeatPeriod) {
    last_beat_ = now;
    if (!is_congested() && !channel_.has_unsent()) send(kBeat);
  }
  flush();
  return !watch_.is_cut_off(fd(), now);
}

bool FrameLink::read(const Handle& handle) {
  std::array<std::byte, 4096> bytes;
  const iovec part{bytes.data(), bytes.size()};
  do {
    const ssize_t got = channel_.read(&part, 1);
    if (got < 0 && is_for_later(errno)) return true;
    if (got <= 0) return false;
    frames_.add(std::span(bytes).first(static_cast<std::size_t>(got)));
    while (const auto frame = frames_.next())
      if (frame->kind != kBeat) handle(*frame);
    if (frames_.is_invalid()) return false;
  } while (channel_.has_buffered());
  return true;
}

}  // namespace sheaf::comm
