#include <array>
#include <bit>
#include <cstring>

#include "sheaf/train/files/durable.hpp"

namespace sheaf::train {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // bit-reversed
constexpr int kSlices = 8;

// tables[k][b]: the effect of byte b followed by k zero bytes.
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1) ^ ((value & 1) ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (int slice = 1; slice < kSlices; ++slice)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t step(std::uint32_t crc, unsigned char byte) {
  return (crc >> 8) ^ kTables[0][(crc ^ byte) & 0xff];
}

std::uint32_t step8(std::uint32_t crc, const char* data) {
  std::uint64_t word;
  std::memcpy(&word, data, sizeof word);
  word ^= crc;
  std::uint32_t result = 0;
  for (int slice = 0; slice < kSlices; ++slice)
    result ^= kTables[7 - slice][(word >> (8 * slice)) & 0xff];
  return result;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) noexcept {
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t crc = ~before;
  for (; bytes.size() >= 8; bytes.remove_prefix(8))
    crc = step8(crc, bytes.data());
  for (const char byte : bytes)
    crc = step(crc, static_cast<unsigned char>(byte));
  return ~crc;
}

}  // namespace sheaf::train
