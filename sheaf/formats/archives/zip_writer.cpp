#include <zlib.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/formats/archives/zip.hpp"

namespace sheaf::formats {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::uint16_t kVersion = 20;    // needed to extract: 2.0
constexpr std::uint16_t kVersion64 = 45;  // 4.5
constexpr std::uint16_t kUtf8Names = 1 << 11;
constexpr std::uint16_t kFirstOfJanuary1980 = 1 << 5 | 1;
constexpr std::uint16_t kExtra64 = 1;
// An unassigned field id, which readers skip.
constexpr std::uint16_t kPadding = 0x4653;

std::uint32_t fit32(std::uint64_t value, std::uint64_t limit) {
  return value >= limit ? kZip32Limit : static_cast<std::uint32_t>(value);
}

// The fields from the version to the sizes, common to both kinds of header. The
// time is constant, so that equal content gives equal files.
void put_common(std::string& header, std::uint16_t version,
                std::uint32_t checksum, std::uint32_t bytes) {
  put_u16(header, version);
  put_u16(header, kUtf8Names);
  put_u16(header, 0);  // stored
  put_u16(header, 0);
  put_u16(header, kFirstOfJanuary1980);
  put_u32(header, checksum);
  put_u32(header, bytes);
  put_u32(header, bytes);
}

}  // namespace

void ZipWriter::add(const std::string& name,
                    std::vector<std::string_view> pieces) {
  SHEAF_CHECK(!name.empty() && name.size() < 65536, "'", name.substr(0, 40),
              "' cannot be the name of an entry in a zip archive; names are 1 "
              "to 65535 bytes long");
  for (const Entry& entry : entries_)
    SHEAF_CHECK(entry.name != name, "two entries have the name '", name,
                "'; names must differ");
  Entry entry;
  entry.name = name;
  entry.pieces = std::move(pieces);
  entry.offset = end_;
  auto checksum = crc32_z(0, nullptr, 0);
  for (const std::string_view piece : entry.pieces) {
    entry.bytes += piece.size();
    if (!piece.empty())
      checksum = crc32_z(checksum, reinterpret_cast<const Bytef*>(piece.data()),
                         piece.size());
  }
  entry.checksum = static_cast<std::uint32_t>(checksum);
  entry.header = local_header(entry);
  end_ += entry.header.size() + entry.bytes;
  entries_.push_back(std::move(entry));
}

std::string ZipWriter::local_header(const Entry& entry) const {
  std::string extra;
  const bool is_large = entry.bytes >= limit_;
  if (is_large) {
    put_u16(extra, kExtra64);
    put_u16(extra, 16);
    put_u64(extra, entry.bytes);
    put_u64(extra, entry.bytes);
  }
  constexpr std::size_t kFixedBytes = 30;
  const std::size_t used =
      entry.offset + kFixedBytes + entry.name.size() + extra.size() + 4;
  const std::size_t padding = (kAlignment - used % kAlignment) % kAlignment;
  put_u16(extra, kPadding);
  put_u16(extra, static_cast<std::uint16_t>(padding));
  extra.append(padding, '\0');
  std::string header("PK\3\4");
  put_common(header, is_large ? kVersion64 : kVersion, entry.checksum,
             fit32(entry.bytes, limit_));
  put_u16(header, static_cast<std::uint16_t>(entry.name.size()));
  put_u16(header, static_cast<std::uint16_t>(extra.size()));
  return header + entry.name + extra;
}

std::string ZipWriter::directory_entry(const Entry& entry) const {
  std::string extra;
  if (entry.bytes >= limit_) {
    put_u64(extra, entry.bytes);
    put_u64(extra, entry.bytes);
  }
  if (entry.offset >= limit_) put_u64(extra, entry.offset);
  std::string fields;
  if (!extra.empty()) {
    put_u16(fields, kExtra64);
    put_u16(fields, static_cast<std::uint16_t>(extra.size()));
  }
  const std::uint16_t version = extra.empty() ? kVersion : kVersion64;
  std::string header("PK\1\2");
  put_u16(header, version);
  put_common(header, version, entry.checksum, fit32(entry.bytes, limit_));
  put_u16(header, static_cast<std::uint16_t>(entry.name.size()));
  put_u16(header, static_cast<std::uint16_t>(fields.size() + extra.size()));
  put_u16(header, 0);  // no comment
  put_u64(header, 0);  // first disk, no attributes
  put_u32(header, fit32(entry.offset, limit_));
  return header + entry.name + fields + extra;
}

std::string ZipWriter::ending(std::uint64_t begin, std::uint64_t bytes) const {
  const std::uint64_t count = entries_.size();
  const bool is_large = begin >= limit_ || bytes >= limit_ || count >= 0xffff;
  std::string text;
  if (is_large) {
    text += "PK\6\6";
    put_u64(text, 44);  // size of the rest of this record
    put_u16(text, kVersion64);
    put_u16(text, kVersion64);
    put_u64(text, 0);  // disks
    for (const std::uint64_t value : {count, count, bytes, begin})
      put_u64(text, value);
    text += "PK\6\7";
    put_u32(text, 0);
    put_u64(text, begin + bytes);
    put_u32(text, 1);
  }
  text += "PK\5\6";
  put_u32(text, 0);  // disks
  const auto short_count =
      static_cast<std::uint16_t>(is_large ? 0xffff : count);
  put_u16(text, short_count);
  put_u16(text, short_count);
  put_u32(text, is_large ? kZip32Limit : static_cast<std::uint32_t>(bytes));
  put_u32(text, is_large ? kZip32Limit : static_cast<std::uint32_t>(begin));
  put_u16(text, 0);  // no comment
  return text;
}

std::string ZipWriter::directory() const {
  std::string text;
  for (const Entry& entry : entries_) text += directory_entry(entry);
  return text + ending(end_, text.size());
}

std::string ZipWriter::bytes() const {
  std::string text;
  for (const Entry& entry : entries_) {
    text += entry.header;
    for (const std::string_view piece : entry.pieces) text += piece;
  }
  return text + directory();
}

void ZipWriter::save(const std::filesystem::path& path) const {
  std::vector<std::string_view> pieces;
  for (const Entry& entry : entries_) {
    pieces.push_back(entry.header);
    pieces.insert(pieces.end(), entry.pieces.begin(), entry.pieces.end());
  }
  const std::string end = directory();
  pieces.push_back(end);
  write_pieces_atomically(path, pieces);
}

}  // namespace sheaf::formats
