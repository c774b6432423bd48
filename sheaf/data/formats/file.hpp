#pragma once
// Files in memory, unpacked where they are gzip files.

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace sheaf::data {

struct FileContent {
  std::string path;
  at::Tensor bytes;           // uint8, one dimension
  bool was_unpacked = false;  // offsets count in the unpacked bytes

  std::int64_t size() const { return bytes.numel(); }
  const std::uint8_t* data() const { return bytes.data_ptr<std::uint8_t>(); }

  // IoError: "path: what, at byte offset".
  [[noreturn]] void fail(std::int64_t offset, std::string_view what) const;
};

// A gzip file is known by its first bytes, not by its name; its checksums are
// verified. IoError names the file, and for a broken one the byte of the file
// where it was noticed.
FileContent read_file(const std::string& path);

// The same without reading: the file's pages come when its bytes are looked at,
// and ranks of a host share them. It must not be shortened meanwhile. A gzip
// file is read and unpacked.
FileContent map_file(const std::string& path);
// What to say of one: "mapped files" or "files unpacked to memory".
std::string source_of(const FileContent& content);

// `folder`/`name` or `folder`/`name`.gz, whichever is there; "" if none is.
std::string find_file(const std::string& folder, const std::string& name);

// The checksum that gzip files carry.
std::uint32_t crc32_of(const FileContent& content);

}  // namespace sheaf::data
