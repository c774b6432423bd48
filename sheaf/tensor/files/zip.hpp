#pragma once
// Zip archives: what .npz files and Python's torch.save are made of.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/tensor/files/byte_reader.hpp"

namespace sheaf::tensor {

struct ZipEntry {
  std::string name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;  // 0 stored, 8 deflated
  std::uint32_t checksum = 0;
  std::uint64_t packed_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // of its local header
};

// An archive in memory, zip64 too. IoError names file and byte where it is cut
// off or corrupt.
class ZipReader {
 public:
  explicit ZipReader(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;  // null: none
  // The content, unpacked and compared with its checksum.
  std::string read(const ZipEntry& entry) const;

 private:
  std::string name_;
  std::string bytes_;
  std::vector<ZipEntry> entries_;
};

inline constexpr std::uint32_t kZip32Limit = 0xffffffff;

// Collects entries and writes them uncompressed, each beginning at a multiple
// of 64 bytes. What is given to `add` must stay alive until `save`.
class ZipWriter {
 public:
  // Sizes and offsets of `limit` and more are written in the way of zip64.
  explicit ZipWriter(std::uint64_t limit = kZip32Limit) : limit_(limit) {}

  // The content is the pieces, one after another.
  void add(const std::string& name, std::vector<std::string_view> pieces);
  // Replaces the file in one step.
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
  std::string ending(std::uint64_t begin, std::uint64_t bytes) const;

  std::uint64_t limit_;
  std::uint64_t end_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace sheaf::tensor
