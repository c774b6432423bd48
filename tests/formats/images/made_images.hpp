#pragma once
// PNG and JPEG files for tests.

#include <string>
#include <utility>
#include <vector>

#include "tests/formats/bytes/made_files.hpp"

namespace sheaf::formats::made {

inline void add_chunk(Bytes& png, const std::string& name,
                      const Bytes& content) {
  add_word(png, static_cast<std::uint32_t>(content.size()));
  Bytes summed(name.begin(), name.end());
  summed.insert(summed.end(), content.begin(), content.end());
  png.insert(png.end(), summed.begin(), summed.end());
  add_word(png, static_cast<std::uint32_t>(
                    crc32(0, summed.data(), static_cast<uInt>(summed.size()))));
}

// The color types of the PNG specification.
enum PngColor : std::uint8_t {
  kPngGray = 0,
  kPngRgb = 2,
  kPngPalette = 3,
  kPngGrayAlpha = 4,
  kPngRgba = 6,
};

struct PngMaking {
  std::uint8_t bits = 8;
  PngColor color = kPngRgb;
  bool is_interlaced = false;
  // Chunks between header and image: gAMA, sRGB, PLTE, tRNS.
  std::vector<std::pair<std::string, Bytes>> chunks = {};
};

// `rows` has the samples of each row, preceded by a filter byte.
inline Bytes png_of(std::uint32_t height, std::uint32_t width,
                    const PngMaking& making, const Bytes& rows) {
  Bytes png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  Bytes header;
  add_word(header, width);
  add_word(header, height);
  header.insert(header.end(), {making.bits, making.color, 0, 0,
                               std::uint8_t{making.is_interlaced}});
  add_chunk(png, "IHDR", header);
  for (const auto& [name, content] : making.chunks)
    add_chunk(png, name, content);
  uLongf size = compressBound(rows.size());
  Bytes packed(size);
  compress(packed.data(), &size, rows.data(), rows.size());
  packed.resize(size);
  add_chunk(png, "IDAT", packed);
  add_chunk(png, "IEND", {});
  return png;
}

// One row without a filter.
inline Bytes png_row(std::uint32_t width, const PngMaking& making,
                     Bytes samples) {
  samples.insert(samples.begin(), 0);
  return png_of(1, width, making, samples);
}

// 8 bits, rows of `channels` (1 or 3) interleaved, unfiltered.
inline Bytes png_bytes(std::uint32_t height, std::uint32_t width, int channels,
                       const Bytes& pixels) {
  const std::size_t row_bytes = width * static_cast<std::size_t>(channels);
  Bytes rows;
  for (std::size_t row = 0; row < height; ++row) {
    rows.push_back(0);
    const auto begin = pixels.begin() + static_cast<long>(row * row_bytes);
    rows.insert(rows.end(), begin, begin + static_cast<long>(row_bytes));
  }
  return png_of(height, width, {.color = channels == 1 ? kPngGray : kPngRgb},
                rows);
}

inline Bytes bytes_of_hex(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

// 16 wide, 8 high: the left half (200, 40, 40), the right half (30, 30, 180).
inline Bytes jpeg_bytes() {
  return bytes_of_hex(
      "ffd8ffdb004300100b0c0e0c0a100e0d0e1211101318281a181616183123251d283a333d"
      "3c3933383740485c4e404457453738506d51575f626768673e4d71797064785c656763ff"
      "db0043011112121815182f1a1a2f63423842636363636363636363636363636363636363"
      "6363636363636363636363636363636363636363636363636363636363636363ffc00011"
      "080008001003011100021101031101ffc400140001000000000000000000000000000000"
      "05ffc40014100100000000000000000000000000000000ffc40015010101000000000000"
      "00000000000000000604ffc40014110100000000000000000000000000000000ffda000c"
      "03010002110311003f002d1130a30137ffd9");
}

// The same with one channel: the left half is 90, the right half 200.
inline Bytes gray_jpeg() {
  return bytes_of_hex(
      "ffd8ffdb004300100b0c0e0c0a100e0d0e1211101318281a181616183123251d283a333d"
      "3c3933383740485c4e404457453738506d51575f626768673e4d71797064785c656763ff"
      "c0000b080008001001011100ffc4001500010100000000000000000000000000000506ff"
      "c40014100100000000000000000000000000000000ffda0008010100003f00316effd9");
}

// The colors of jpeg_bytes(), as a progressive file of `scans` scans, at least
// 4. From the fourth on they are equal.
inline Bytes progressive_jpeg(int scans = 4) {
  std::string hex =
      "ffd8ffdb004300100b0c0e0c0a100e0d0e1211101318281a181616183123251d283a333d"
      "3c3933383740485c4e404457453738506d51575f626768673e4d71797064785c656763ff"
      "db0043011112121815182f1a1a2f63423842636363636363636363636363636363636363"
      "6363636363636363636363636363636363636363636363636363636363636363ffc20011"
      "080008001003011100021101031101ffc400140001000000000000000000000000000000"
      "05ffc4001501010100000000000000000000000000000604ffda000c0301000210031000"
      "00002e24c53027ffc40014100100000000000000000000000000000010ffda0008010100"
      "013f003fffc40014110100000000000000000000000000000010ffda0008010201013f00"
      "3fffc40014110100000000000000000000000000000010";
  for (int scan = 4; scan <= scans; ++scan) hex += "ffda0008010301013f003f";
  return bytes_of_hex(hex + "ffd9");
}

// Adds the APP14 marker of Adobe's programs; `transform` 0: CMYK, 2: YCCK.
inline Bytes with_adobe_mark(const Bytes& jpeg, std::uint8_t transform) {
  Bytes mark = bytes_of_hex("ffee000e41646f6265006400000000");
  mark.push_back(transform);
  Bytes marked = jpeg;
  marked.insert(marked.begin() + 2, mark.begin(), mark.end());
  return marked;
}

// Four components, 16 wide and 8 high, of quality 100 and thus exact: the left
// half is (200, 100, 50, 220), the right half (255, 0, 128, 90).
inline Bytes cmyk_jpeg() {
  return bytes_of_hex(
      "ffd8ffdb0043000101010101010101010101010101010101010101010101010101010101"
      "0101010101010101010101010101010101010101010101010101010101010101010101ff"
      "c000140800080010044311004d11005911004b1100ffc400170001000300000000000000"
      "0000000000000a08090bffc40014100100000000000000000000000000000000ffda000e"
      "0443004d0059004b00003f0048083e31e5c0bb80df27067defffd9");
}

// The same with Y, Cb, Cr and K, which as CMYK are (60, 60, 60, 220) and (255,
// 255, 255, 90). Needs Adobe's marker.
inline Bytes ycck_jpeg() {
  return bytes_of_hex(
      "ffd8ffdb0043000101010101010101010101010101010101010101010101010101010101"
      "0101010101010101010101010101010101010101010101010101010101010101010101ff"
      "db0043010101010101010101010101010101010101010101010101010101010101010101"
      "0101010101010101010101010101010101010101010101010101010101010101ffc00014"
      "080008001004011100021101031101041100ffc400150001010000000000000000000000"
      "0000000a0bffc40014100100000000000000000000000000000000ffc400140101000000"
      "00000000000000000000000000ffc40014110100000000000000000000000000000000ff"
      "da000e040100021103110400003f0043005c08f3827defffd9");
}

}  // namespace sheaf::formats::made
