#pragma once
// Zip archives, the container of .npz files and of Python's torch.save.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sheaf/formats/bytes/byte_reader.hpp"

namespace sheaf::formats {

struct ZipEntry {
  std::string name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;  // 0 stored, 8 deflated
  std::uint32_t checksum = 0;
  std::uint64_t packed_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // of its local header
  std::uint64_t begin = 0;   // of its content
};

// The entries of an archive in the order of its directory. Their headers and
// contents lie before the directory and do not overlap. Throws IoError.
std::vector<ZipEntry> read_zip_directory(const std::string& archive,
                                         std::string_view bytes);

// The reader of an archive, for errors that name the entry, too.
ByteReader reader_of_entry(const std::string& archive, std::string_view bytes,
                           const ZipEntry& entry);

// The content of an entry: a part of the archive, or unpacked.
class ZipContent {
 public:
  explicit ZipContent(std::string_view stored) : content_(stored) {}
  explicit ZipContent(std::string unpacked) : content_(std::move(unpacked)) {}

  // Valid as long as this object and the archive.
  std::string_view bytes() const {
    const auto* unpacked = std::get_if<std::string>(&content_);
    return unpacked ? *unpacked : std::get<std::string_view>(content_);
  }

 private:
  std::variant<std::string_view, std::string> content_;
};

// Reads an archive, including zip64, into memory. Entries must have different
// names and must not overlap; a file cannot unpack to more than 1032 times its
// size, the maximum of deflate. Throws IoError, which names the file and the
// byte offset, if the archive is truncated or corrupt.
class ZipReader {
 public:
  explicit ZipReader(const std::filesystem::path& path);
  // Errors name the archive `name`.
  ZipReader(std::string name, std::string bytes);
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return bytes_.size(); }
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;  // null: none
  // The content, decompressed and verified against its checksum. Memory is
  // allocated as data arrives, not by the size that the archive claims.
  ZipContent read(const ZipEntry& entry) const;

 private:
  void index_names();

  std::string name_;
  std::string bytes_;
  std::vector<ZipEntry> entries_;
  std::vector<const ZipEntry*> by_name_;
};

inline constexpr std::uint32_t kZip32Limit = 0xffffffff;

// Collects entries and writes them uncompressed, each aligned to 64 bytes. The
// memory passed to `add` must stay alive until `save`.
class ZipWriter {
 public:
  // Sizes and offsets of at least `limit` use the zip64 format.
  explicit ZipWriter(std::uint64_t limit = kZip32Limit) : limit_(limit) {}

  // The content is the concatenation of the pieces. Throws UsageError for a
  // name that exists already, is empty or is longer than 65535 bytes.
  void add(const std::string& name, std::vector<std::string_view> pieces);
  // The archive in memory.
  std::string bytes() const;
  // Replaces the file atomically.
  void save(const std::filesystem::path& path) const;

 private:
  struct Entry {
    std::string name;
    std::vector<std::string_view> pieces;
    std::uint64_t bytes = 0;
    std::uint32_t checksum = 0;
    std::uint64_t offset = 0;
    std::string header;
  };
  std::string local_header(const Entry& entry) const;
  std::string directory_entry(const Entry& entry) const;
  std::string directory() const;
  std::string ending(std::uint64_t begin, std::uint64_t bytes) const;

  std::uint64_t limit_;
  std::uint64_t end_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace sheaf::formats
