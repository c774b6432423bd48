#pragma once
// Helpers to write test files and to check errors.

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::formats::made {

using Bytes = std::vector<std::uint8_t>;

inline void write_bytes(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline void add_word(Bytes& bytes, std::uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::uint8_t>(word >> shift));
}

inline Bytes idx_bytes(std::uint8_t type,
                       const std::vector<std::uint32_t>& shape,
                       const Bytes& elements) {
  Bytes bytes = {0, 0, type, static_cast<std::uint8_t>(shape.size())};
  for (const std::uint32_t size : shape) add_word(bytes, size);
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

// 0, 1, 2 ... modulo 251, so that no two rows of an image are equal.
inline Bytes counting_bytes(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::uint8_t>(i % 251);
  return bytes;
}

// A test with a temporary folder and a function to write files there.
class FileTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const Bytes& bytes) const {
    const auto path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    write_bytes(path.string(), bytes);
    return path.string();
  }

  TemporaryFolder folder_;
};

// The message of the IoError that `action` throws; "" if it throws none.
template <class Action>
std::string io_error(const Action& action) {
  return error_of<IoError>(action);
}

template <class Action>
std::string usage_error(const Action& action) {
  return error_of<UsageError>(action);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The number after "at byte", or -1.
inline long offset_in(const std::string& message) {
  const std::string mark = "at byte ";
  const auto at = message.find(mark);
  if (at == std::string::npos) return -1;
  return std::stol(message.substr(at + mark.size()));
}

}  // namespace sheaf::formats::made
