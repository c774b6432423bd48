#pragma once
// Reads or maps files into memory; gzip files are decompressed.

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace sheaf::data {

struct FileContent {
  std::string path;
  at::Tensor bytes;           // uint8, one dimension
  bool was_unpacked = false;  // offsets refer to the decompressed bytes

  std::int64_t size() const { return bytes.numel(); }
  const std::uint8_t* data() const { return bytes.data_ptr<std::uint8_t>(); }

  // Throws IoError "PATH: WHAT, at byte OFFSET".
  [[noreturn]] void fail(std::int64_t offset, std::string_view what) const;
};

// Reads a file. gzip files are recognized by their first bytes, not by name;
// their checksums are verified. Throws IoError, which names the file and, if it
// is corrupt, the byte offset at which the error was detected.
FileContent read_file(const std::string& path);

// Maps a file: its pages are read on access and shared by the ranks of a host.
// The file must not be truncated while it is mapped. A gzip file is read and
// decompressed instead.
FileContent map_file(const std::string& path);
// Describes the source: "mapped files" or "files decompressed into memory".
std::string source_of(const FileContent& content);

// `folder`/`name` or `folder`/`name`.gz, whichever exists; "" if neither does.
std::string find_file(const std::string& folder, const std::string& name);

// The CRC-32 of the content, as used by gzip.
std::uint32_t crc32_of(const FileContent& content);

}  // namespace sheaf::data
