#include "sheaf/formats/bytes/byte_reader.hpp"

#include <fmt/format.h>

#include "sheaf/base/error.hpp"

namespace sheaf::formats {
namespace {

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

void put(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i)
    bytes.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

void ByteReader::seek(std::size_t offset, std::string_view what) {
  if (offset > size())
    fail(concat(what, " should be at byte ", offset, ", past the end at ",
                size(), "; the file is truncated or corrupt"));
  offset_ = offset;
}

std::string_view ByteReader::take(std::size_t count, std::string_view what) {
  if (count > left())
    fail(concat(what, " needs ", count, " bytes, only ", left(),
                " are left; the file is truncated or corrupt"));
  const std::string_view taken = bytes_.substr(offset_, count);
  offset_ += count;
  return taken;
}

std::uint8_t ByteReader::u8(std::string_view what) {
  return static_cast<std::uint8_t>(take(1, what)[0]);
}

std::uint16_t ByteReader::u16(std::string_view what) {
  return static_cast<std::uint16_t>(little_endian(take(2, what)));
}

std::uint32_t ByteReader::u32(std::string_view what) {
  return static_cast<std::uint32_t>(little_endian(take(4, what)));
}

std::uint64_t ByteReader::u64(std::string_view what) {
  return little_endian(take(8, what));
}

std::string_view ByteReader::until(char end, std::string_view what) {
  const std::size_t found = bytes_.find(end, offset_);
  if (found == std::string_view::npos)
    fail(concat(what, " has no end; the file is truncated or corrupt"));
  const std::string_view taken = take(found - offset_, what);
  ++offset_;
  return taken;
}

void ByteReader::fail(std::size_t offset, const std::string& message) const {
  throw IoError(concat(name_, ": byte ", offset, ": ", message));
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string result;
  for (const char byte : text.substr(0, kMost)) {
    if (byte >= ' ' && byte <= '~')
      result += byte;
    else
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return text.size() > kMost ? result + "..." : result;
}

void put_u16(std::string& bytes, std::uint16_t value) { put(bytes, value, 2); }
void put_u32(std::string& bytes, std::uint32_t value) { put(bytes, value, 4); }
void put_u64(std::string& bytes, std::uint64_t value) { put(bytes, value, 8); }

}  // namespace sheaf::formats
