#include <zlib.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/formats/zip.hpp"

namespace sheaf::formats {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034b50;
constexpr std::uint32_t kDirectoryMark = 0x02014b50;
constexpr std::uint32_t kEndMark = 0x06054b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kLocator64Mark = 0x07064b50;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::size_t kMaxComment = 65535;
constexpr std::uint16_t kEncrypted = 1;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
// The maximum compression ratio of deflate.
constexpr std::uint64_t kMaxRatio = 1032;

struct Directory {
  std::uint64_t count = 0;
  std::uint64_t offset = 0;
};

void expect_mark(ByteReader& reader, std::uint32_t wanted,
                 std::string_view what) {
  const std::size_t offset = reader.offset();
  if (reader.u32(what) != wanted)
    reader.fail(offset,
                concat("expected ", what, "; ", reader.name(), " is corrupt"));
}

// The end record is at the end of the file, followed only by a comment.
std::size_t find_end(const ByteReader& reader, std::string_view bytes) {
  const std::string_view mark("PK\5\6", 4);
  const std::size_t found = bytes.rfind(mark);
  if (found == std::string_view::npos || found + kEndBytes > bytes.size() ||
      bytes.size() - found > kEndBytes + kMaxComment)
    reader.fail(bytes.size(),
                "the end record of a zip archive is missing; the file is "
                "truncated or corrupt");
  return found;
}

Directory read_end64(ByteReader& reader, std::size_t end) {
  if (end < kLocator64Bytes) reader.fail(end, "the zip64 locator is missing");
  reader.seek(end - kLocator64Bytes, "the zip64 locator");
  expect_mark(reader, kLocator64Mark, "the zip64 locator");
  reader.take(4, "the zip64 locator");
  reader.seek(reader.u64("the zip64 locator"), "the zip64 end record");
  expect_mark(reader, kEnd64Mark, "the zip64 end record");
  reader.take(28, "the zip64 end record");
  Directory directory;
  directory.count = reader.u64("the zip64 end record");
  reader.take(8, "the zip64 end record");
  directory.offset = reader.u64("the zip64 end record");
  return directory;
}

Directory read_end(ByteReader& reader, std::string_view bytes) {
  const std::size_t end = find_end(reader, bytes);
  reader.seek(end + 10, "the end record");
  Directory directory;
  directory.count = reader.u16("the number of entries");
  reader.take(4, "the directory's size");
  directory.offset = reader.u32("the directory's offset");
  if (directory.count == 0xffff || directory.offset == kZip32Limit)
    return read_end64(reader, end);
  return directory;
}

// The extra field holds, in this order, only those numbers that do not fit in
// 32 bits.
void read_extra64(ByteReader& reader, std::size_t length, ZipEntry& entry) {
  const std::size_t end = reader.offset() + length;
  reader.seek(end, "the end of an extra field");
  reader.seek(end - length, "an extra field");
  while (reader.offset() + 4 <= end) {
    const int kind = reader.u16("an extra field");
    const std::size_t next = reader.u16("an extra field") + reader.offset();
    if (kind == 1) {
      for (auto* field : {&entry.bytes, &entry.packed_bytes, &entry.offset})
        if (*field == kZip32Limit) *field = reader.u64("a zip64 field");
      break;
    }
    reader.seek(next, "an extra field");
  }
  reader.seek(end, "the end of an extra field");
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

class Inflater {
 public:
  explicit Inflater(std::string_view packed) {
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    left_in_ = packed.size();
    // Negative: raw deflate data without a zlib header.
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Returns whether the compressed bytes fill `unpacked` exactly.
  bool fill(std::string& unpacked) {
    stream_.next_out = reinterpret_cast<Bytef*>(unpacked.data());
    std::uint64_t left_out = unpacked.size();
    int result = Z_OK;
    while (result == Z_OK) {
      refill(stream_.avail_in, left_in_);
      refill(stream_.avail_out, left_out);
      result = inflate(&stream_, Z_NO_FLUSH);
    }
    return result == Z_STREAM_END && left_out == 0 && stream_.avail_out == 0;
  }

 private:
  // zlib's counters have 32 bits.
  static void refill(uInt& available, std::uint64_t& left) {
    if (available > 0) return;
    available = static_cast<uInt>(std::min<std::uint64_t>(left, 1u << 30));
    left -= available;
  }

  z_stream stream_{};
  std::uint64_t left_in_ = 0;
};

std::string unpack(const ByteReader& reader, const ZipEntry& entry,
                   std::string_view packed) {
  if (entry.method == kStored) {
    if (entry.bytes != entry.packed_bytes)
      reader.fail(entry.offset,
                  "the sizes of an uncompressed entry differ; "
                  "the file is corrupt");
    return std::string(packed);
  }
  if (entry.bytes > kMaxRatio * (entry.packed_bytes + 1))
    reader.fail(entry.offset, "its size is impossible; the file is corrupt");
  std::string unpacked(entry.bytes, '\0');
  if (!Inflater(packed).fill(unpacked))
    reader.fail(entry.offset, "it cannot be inflated; the file is corrupt");
  return unpacked;
}

void check_kind(const ByteReader& reader, const ZipEntry& entry) {
  if (entry.flags & kEncrypted)
    reader.fail(entry.offset, "it is encrypted; save it without a password");
  if (entry.method != kStored && entry.method != kDeflated)
    reader.fail(entry.offset,
                concat("unsupported compression method ", entry.method,
                       "; stored (0) and deflated (8) can be read"));
}

}  // namespace

ZipReader::ZipReader(const std::filesystem::path& path)
    : name_(path.string()), bytes_(read_file(path)) {
  ByteReader reader(name_, bytes_);
  const Directory directory = read_end(reader, bytes_);
  reader.seek(directory.offset, "the directory");
  for (std::uint64_t i = 0; i < directory.count; ++i)
    entries_.push_back(read_entry(reader));
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(),
                   [&](const ZipEntry& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::string ZipReader::read(const ZipEntry& entry) const {
  ByteReader reader(concat(name_, ", entry ", entry.name), bytes_);
  check_kind(reader, entry);
  reader.seek(entry.offset, "the entry");
  expect_mark(reader, kLocalMark, "the header of an entry");
  reader.take(22, "the header of an entry");
  const std::size_t name_length = reader.u16("the header of an entry");
  const std::size_t extra_length = reader.u16("the header of an entry");
  reader.take(name_length + extra_length, "the header of an entry");
  const std::size_t begin = reader.offset();
  const auto packed = reader.take(entry.packed_bytes, "the content");
  std::string content = unpack(reader, entry, packed);
  const auto checksum = crc32_z(
      0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (checksum != entry.checksum)
    reader.fail(begin,
                "the content does not match its checksum; the file "
                "is corrupt");
  return content;
}

}  // namespace sheaf::formats
