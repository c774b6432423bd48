#include "sheaf/comm/network/frame_buffer.hpp"

#include <cstring>

namespace sheaf::comm {

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

}  // namespace sheaf::comm
