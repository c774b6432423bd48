#pragma once
// Bytes of a file, taken one piece after another; what is missing or wrong is
// told with the file's name and the byte where it is.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace sheaf::tensor {

// All of a file. IoError names it when it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Numbers are little-endian. The bytes must outlive the reader.
class ByteReader {
 public:
  // `name` stands in front of every message.
  ByteReader(std::string name, std::string_view bytes)
      : name_(std::move(name)), bytes_(bytes) {}

  const std::string& name() const { return name_; }
  std::size_t offset() const { return offset_; }
  std::size_t size() const { return bytes_.size(); }
  std::size_t left() const { return bytes_.size() - offset_; }
  void seek(std::size_t offset, std::string_view what);

  // The next `count` bytes; `what` says in the error what should be there.
  std::string_view take(std::size_t count, std::string_view what);
  std::uint8_t u8(std::string_view what);
  std::uint16_t u16(std::string_view what);
  std::uint32_t u32(std::string_view what);
  std::uint64_t u64(std::string_view what);
  // Up to the next `end`, which is taken too but not returned.
  std::string_view until(char end, std::string_view what);

  // IoError: "FILE: byte OFFSET: MESSAGE".
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const;
  [[noreturn]] void fail(const std::string& message) const {
    fail(offset_, message);
  }

 private:
  std::string name_;
  std::string_view bytes_;
  std::size_t offset_ = 0;
};

// Little-endian numbers at the end of `bytes`.
void put_u16(std::string& bytes, std::uint16_t value);
void put_u32(std::string& bytes, std::uint32_t value);
void put_u64(std::string& bytes, std::uint64_t value);

}  // namespace sheaf::tensor
