#pragma once
// Truncates a file at every length and changes every byte: readers must report
// an error or load the file, never crash.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/formats/bytes/byte_reader.hpp"

namespace sheaf::formats {

inline void write_bytes(const std::filesystem::path& path,
                        const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Whether loading ends in an IoError that names the file and a byte.
inline bool is_refused(const std::filesystem::path& path,
                       const std::function<void()>& load) {
  try {
    load();
    return false;
  } catch (const IoError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(path.string()), std::string::npos) << text;
    EXPECT_NE(text.find("byte "), std::string::npos) << text;
    return true;
  }
}

// Every truncated file must be refused. Each changed byte is refused or loaded
// with any content; returns the number of refused changes.
inline std::size_t damage(const std::filesystem::path& path,
                          const std::function<void()>& load) {
  const std::string good = read_file(path);
  for (std::size_t length = 0; length < good.size(); ++length) {
    write_bytes(path, good.substr(0, length));
    EXPECT_TRUE(is_refused(path, load)) << "cut off at " << length;
  }
  std::size_t refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      write_bytes(path, bad);
      refused += is_refused(path, load);
    }
  }
  write_bytes(path, good);
  return refused;
}

}  // namespace sheaf::formats
