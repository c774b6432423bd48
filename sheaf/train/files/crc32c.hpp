#pragma once
// The checksum used by TensorBoard event files and checkpoints.

#include <cstdint>
#include <string_view>

namespace sheaf::train {

// CRC-32C (Castagnoli) of the bytes that follow those with the checksum
// `before`.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0) noexcept;

}  // namespace sheaf::train
