#pragma once
// The checksum used by TensorBoard event files and checkpoints.

#include <cstdint>
#include <string_view>

namespace sheaf::train {

// CRC-32C (Castagnoli) of the bytes.
std::uint32_t crc32c(std::string_view bytes) noexcept;

}  // namespace sheaf::train
