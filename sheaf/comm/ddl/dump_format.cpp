#include "sheaf/comm/ddl/dump_format.hpp"

#include <array>

namespace sheaf::comm {

std::uint32_t crc32(std::string_view bytes) noexcept {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        made[i] = made[i] & 1 ? made[i] >> 1 ^ 0xedb88320u : made[i] >> 1;
    }
    return made;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

}  // namespace sheaf::comm
