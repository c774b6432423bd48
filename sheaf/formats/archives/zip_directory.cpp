// Reads the records of a zip archive that describe its entries.
#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/archives/zip.hpp"

namespace sheaf::formats {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034b50;
constexpr std::uint32_t kDirectoryMark = 0x02014b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kLocator64Mark = 0x07064b50;
constexpr std::string_view kEndMark("PK\5\6", 4);
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::size_t kMaxComment = 65535;
constexpr std::uint16_t kZip16Limit = 0xffff;

struct Directory {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;
};

void expect_mark(ByteReader& reader, std::uint32_t wanted,
                 std::string_view what) {
  const std::size_t offset = reader.offset();
  if (reader.u32(what) != wanted)
    reader.fail(offset,
                concat("expected ", what, "; ", reader.name(), " is corrupt"));
}

// The offset of the end record: the last one whose comment ends with the file.
std::size_t find_end(const ByteReader& reader, std::string_view bytes) {
  const std::size_t begin =
      bytes.size() - std::min(bytes.size(), kEndBytes + kMaxComment);
  const std::string_view tail = bytes.substr(begin);
  for (std::size_t at = tail.size();
       at > 0 && (at = tail.rfind(kEndMark, at - 1)) != tail.npos;) {
    if (tail.size() - at < kEndBytes) continue;
    ByteReader comment(reader.name(), tail.substr(at + kEndBytes - 2));
    if (comment.u16("the comment's length") == comment.left())
      return begin + at;
  }
  reader.fail(bytes.size(),
              "the end record of a zip archive is missing, or other bytes "
              "follow it; the file is truncated or corrupt");
}

Directory read_end64(ByteReader& reader, std::size_t locator) {
  reader.seek(locator, "the zip64 locator");
  expect_mark(reader, kLocator64Mark, "the zip64 locator");
  reader.take(4, "the zip64 locator");
  reader.seek(reader.u64("the zip64 locator"), "the zip64 end record");
  expect_mark(reader, kEnd64Mark, "the zip64 end record");
  reader.take(28, "the zip64 end record");
  Directory directory;
  directory.count = reader.u64("the number of entries");
  directory.bytes = reader.u64("the directory's size");
  directory.begin = reader.u64("the directory's offset");
  return directory;
}

Directory read_end(ByteReader& reader, std::string_view bytes) {
  const std::size_t end = find_end(reader, bytes);
  reader.seek(end + 10, "the end record");
  Directory directory;
  directory.count = reader.u16("the number of entries");
  directory.bytes = reader.u32("the directory's size");
  directory.begin = reader.u32("the directory's offset");
  // There may be 65535 entries without zip64.
  const std::size_t locator = end - std::min(end, kLocator64Bytes);
  const bool has_locator = bytes.substr(locator, 4) == "PK\6\7";
  if (directory.begin == kZip32Limit || directory.bytes == kZip32Limit ||
      (directory.count == kZip16Limit && has_locator))
    directory = read_end64(reader, locator);
  if (directory.begin > end || directory.bytes > end - directory.begin)
    reader.fail(end,
                concat("a directory of ", directory.bytes, " bytes at byte ",
                       directory.begin, " does not fit; the file is corrupt"));
  return directory;
}

// The field of kind 1 holds, in this order, only those numbers that do not fit
// in 32 bits.
void read_extra64(ByteReader& reader, std::size_t length, ZipEntry& entry) {
  const std::size_t offset = reader.offset();
  ByteReader extra(reader.name(), reader.take(length, "an extra field"));
  while (extra.left() >= 4) {
    const int kind = extra.u16("an extra field");
    const std::size_t bytes = extra.u16("an extra field");
    if (bytes > extra.left())
      reader.fail(offset + extra.offset(),
                  "an extra field ends after the entry; the file is corrupt");
    ByteReader field(reader.name(), extra.take(bytes, "an extra field"));
    if (kind != 1) continue;
    for (auto* number : {&entry.bytes, &entry.packed_bytes, &entry.offset}) {
      if (*number != kZip32Limit) continue;
      if (field.left() < 8)
        reader.fail(offset, "a zip64 number is missing; the file is corrupt");
      *number = field.u64("a zip64 number");
    }
    return;
  }
}

ZipEntry read_entry(ByteReader& reader) {
  expect_mark(reader, kDirectoryMark, "an entry of the directory");
  ZipEntry entry;
  constexpr std::string_view kWhat = "an entry of the directory";
  reader.take(4, kWhat);
  entry.flags = reader.u16(kWhat);
  entry.method = reader.u16(kWhat);
  reader.take(4, kWhat);
  entry.checksum = reader.u32(kWhat);
  entry.packed_bytes = reader.u32(kWhat);
  entry.bytes = reader.u32(kWhat);
  const std::size_t name_length = reader.u16(kWhat);
  const std::size_t extra_length = reader.u16(kWhat);
  const std::size_t comment_length = reader.u16(kWhat);
  reader.take(8, kWhat);
  entry.offset = reader.u32(kWhat);
  entry.name = reader.take(name_length, "the name of an entry");
  read_extra64(reader, extra_length, entry);
  reader.take(comment_length, "the comment of an entry");
  return entry;
}

// Sets the begin of the content. Returns whether the header has the name.
bool locate_content(ByteReader& reader, ZipEntry& entry) {
  constexpr std::string_view kWhat = "the header of an entry";
  reader.seek(entry.offset, kWhat);
  expect_mark(reader, kLocalMark, kWhat);
  reader.take(22, kWhat);
  const std::size_t name_length = reader.u16(kWhat);
  const std::size_t extra_length = reader.u16(kWhat);
  const std::string_view name = reader.take(name_length, kWhat);
  reader.take(extra_length, kWhat);
  entry.begin = reader.offset();
  reader.take(entry.packed_bytes, "the content of an entry");
  return name == entry.name;
}

// An archive of overlapping entries could unpack to any number of bytes.
void locate_contents(const std::string& archive, std::string_view bytes,
                     std::vector<ZipEntry>& entries) {
  std::vector<ZipEntry*> in_order;
  for (ZipEntry& entry : entries) in_order.push_back(&entry);
  std::sort(in_order.begin(), in_order.end(),
            [](auto* a, auto* b) { return a->offset < b->offset; });
  ByteReader reader(archive, bytes);
  for (ZipEntry* entry : in_order) {
    const auto fail = [&](std::string_view what) {
      reader_of_entry(archive, bytes, *entry)
          .fail(entry->offset, concat(what, "; the file is corrupt"));
    };
    if (entry->offset < reader.offset()) fail("it overlaps another entry");
    if (!locate_content(reader, *entry))
      fail("its name differs from that in the directory");
  }
}

}  // namespace

ByteReader reader_of_entry(const std::string& archive, std::string_view bytes,
                           const ZipEntry& entry) {
  return {concat(archive, ", entry ", shown(entry.name)), bytes};
}

std::vector<ZipEntry> read_zip_directory(const std::string& archive,
                                         std::string_view bytes) {
  ByteReader whole(archive, bytes);
  const Directory directory = read_end(whole, bytes);
  const std::size_t end = directory.begin + directory.bytes;
  ByteReader reader(archive, bytes.substr(0, end));
  reader.seek(directory.begin, "the directory");
  std::vector<ZipEntry> entries;
  for (std::uint64_t i = 0; i < directory.count; ++i)
    entries.push_back(read_entry(reader));
  if (reader.left() > 0)
    reader.fail(concat(reader.left(),
                       " bytes follow the last entry of the directory; the "
                       "file is corrupt"));
  locate_contents(archive, bytes.substr(0, directory.begin), entries);
  return entries;
}

}  // namespace sheaf::formats
