#pragma once
// Sequential reader of a file's bytes. Errors name the file and the byte
// offset.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sheaf::formats {

// Numbers are little-endian. The bytes must outlive the reader.
class ByteReader {
 public:
  // Every error message begins with `name`.
  ByteReader(std::string name, std::string_view bytes)
      : name_(std::move(name)), bytes_(bytes) {}

  const std::string& name() const { return name_; }
  std::size_t offset() const { return offset_; }
  std::size_t size() const { return bytes_.size(); }
  std::size_t left() const { return bytes_.size() - offset_; }
  void seek(std::size_t offset, std::string_view what);

  // Consumes the next `count` bytes. `what` names the expected item in errors.
  std::string_view take(std::size_t count, std::string_view what);
  std::uint8_t u8(std::string_view what);
  std::uint16_t u16(std::string_view what);
  std::uint32_t u32(std::string_view what);
  std::uint64_t u64(std::string_view what);
  // Consumes up to and including the next `end`, which is not returned.
  std::string_view until(char end, std::string_view what);

  // Throws IoError "FILE: byte OFFSET: MESSAGE".
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const;
  [[noreturn]] void fail(const std::string& message) const {
    fail(offset_, message);
  }

 private:
  std::string name_;
  std::string_view bytes_;
  std::size_t offset_ = 0;
};

// `text` from a file, for a message: at most 80 of its bytes, with \x.. for
// those that are not printable ASCII.
std::string shown(std::string_view text);

// Append a little-endian number to `bytes`.
void put_u16(std::string& bytes, std::uint16_t value);
void put_u32(std::string& bytes, std::uint32_t value);
void put_u64(std::string& bytes, std::uint64_t value);

}  // namespace sheaf::formats
