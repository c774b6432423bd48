#pragma once
// Cuts a stream of bytes into frames: small messages, each with a kind.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sheaf::comm {

struct FrameHeader {
  std::uint32_t kind = 0;
  std::uint32_t bytes = 0;  // that follow the header
};

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

}  // namespace sheaf::comm
