#pragma once
// A test with a zip archive in a temporary folder.

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "sheaf/formats/archives/zip.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/formats/bytes/damage.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::formats {

inline void set_u16(std::string& bytes, std::size_t at, std::uint16_t value) {
  std::string number;
  put_u16(number, value);
  bytes.replace(at, number.size(), number);
}

inline void set_u32(std::string& bytes, std::size_t at, std::uint32_t value) {
  std::string number;
  put_u32(number, value);
  bytes.replace(at, number.size(), number);
}

// Raw deflate data.
inline std::string deflated(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// The archive of an entry that holds the packed bytes of `text`. In the
// directory the method is at byte 10, the checksum at byte 16 and the unpacked
// size at byte 24.
inline std::string packed_archive(const std::string& packed,
                                  const std::string& text,
                                  const std::string& name = "a") {
  ZipWriter writer;
  writer.add(name, {packed});
  std::string bytes = writer.bytes();
  const std::size_t entry = bytes.rfind("PK\1\2");
  bytes[entry + 10] = 8;
  set_u32(bytes, entry + 16,
          static_cast<std::uint32_t>(crc32_z(
              0, reinterpret_cast<const Bytef*>(text.data()), text.size())));
  set_u32(bytes, entry + 24, static_cast<std::uint32_t>(text.size()));
  return bytes;
}

class ZipTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "a.zip"; }
  void write(const std::string& bytes) const { write_bytes(path(), bytes); }
  // An archive whose entry "a" holds "text".
  std::string text_archive() const {
    ZipWriter writer;
    writer.add("a", {"text"});
    writer.save(path());
    return read_file(path());
  }

  TemporaryFolder folder_;
};

}  // namespace sheaf::formats
