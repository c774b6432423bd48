#pragma once
// What the writer and the reader of dumps share.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sheaf::comm {

inline constexpr std::string_view kDumpMagic = "SHEAFDMP";
inline constexpr std::uint32_t kDumpVersion = 1;
// Magic, version, size and checksum of the header.
inline constexpr std::size_t kDumpPreambleBytes = 8 + 4 + 4 + 4;

// CRC-32 as in zlib and PNG.
std::uint32_t crc32(std::string_view bytes) noexcept;

inline std::string_view view_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sheaf::comm
