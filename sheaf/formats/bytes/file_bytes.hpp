#pragma once
// Reads or maps whole files; gzip files are decompressed.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sheaf::formats {

class MappedFile;

// The content of a file. Copies share the memory.
struct FileBytes {
  std::string path;
  std::shared_ptr<std::uint8_t> memory;  // freed or unmapped by its last owner
  std::size_t size = 0;
  bool was_unpacked = false;  // offsets refer to the decompressed bytes
  std::shared_ptr<const MappedFile> mapping = {};  // null: not mapped

  const std::uint8_t* data() const { return memory.get(); }
  std::span<const std::uint8_t> bytes() const { return {data(), size}; }
  bool begins_with(std::span<const std::uint8_t> first) const;

  // Throws IoError "PATH: WHAT, at byte OFFSET".
  [[noreturn]] void fail(std::size_t offset, std::string_view what) const;

  // Call after reading: throws IoError if a mapped file was truncated since it
  // was mapped, so that wrong bytes may have been read; see
  // MappedFile::check().
  void check_mapping() const;
};

// Reads a file. gzip files are recognized by their first bytes, not by name;
// their checksums are verified. Throws IoError, which names the file and, if it
// is corrupt, the byte offset at which the error was detected; also if the
// content does not fit into the available memory.
FileBytes read_bytes(const std::string& path);

// Maps a file: its pages are read on access and shared by the processes of a
// host. A gzip file is read and decompressed instead.
FileBytes map_bytes(const std::string& path);

// Bytes that outlive the result, with the name of a file for errors.
FileBytes view_bytes(std::string path, std::span<const std::uint8_t> bytes);

// The CRC-32 of the content, as used by gzip.
std::uint32_t crc32_of(const FileBytes& file);

}  // namespace sheaf::formats
