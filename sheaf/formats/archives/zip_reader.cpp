#include <zlib.h>

#include <algorithm>
#include <new>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/formats/archives/zip.hpp"
#include "sheaf/formats/bytes/mapped_file.hpp"
#include "sheaf/formats/bytes/memory.hpp"

namespace sheaf::formats {
namespace {

constexpr std::uint16_t kEncrypted = 1;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
// The maximum compression ratio of deflate.
constexpr std::uint64_t kMaxRatio = 1032;

class Inflater {
 public:
  // `name`: of the entry, for errors.
  Inflater(const std::string& name, std::string_view packed) : name_(name) {
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    left_in_ = packed.size();
    // Negative: raw deflate data without a zlib header.
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // The unpacked bytes; nullopt if they are not exactly `bytes`.
  std::optional<std::string> run(std::uint64_t bytes) {
    // Few files are compressed by more than 8:1. For the others, and for those
    // that claim it, memory is doubled whenever it has been filled.
    grow(std::min<std::uint64_t>(bytes, 8 * left_in_ + 65536));
    int result = Z_OK;
    while (result == Z_OK) {
      refill(stream_.avail_in, left_in_);
      refill(stream_.avail_out, left_out_);
      if (stream_.avail_out == 0 && unpacked_.size() < bytes) {
        grow(std::min<std::uint64_t>(bytes, 2 * unpacked_.size()));
        refill(stream_.avail_out, left_out_);
      }
      result = inflate(&stream_, Z_NO_FLUSH);
    }
    if (result != Z_STREAM_END || stream_.avail_out + left_out_ > 0 ||
        unpacked_.size() != bytes)
      return std::nullopt;
    return std::move(unpacked_);
  }

 private:
  // The content is copied to the larger memory.
  void grow(std::uint64_t size) {
    const std::size_t filled = unpacked_.size();
    check_memory(name_, "its content", size);
    unpacked_.resize(size);
    stream_.next_out = reinterpret_cast<Bytef*>(unpacked_.data() + filled);
    left_out_ = size - filled;
  }

  // zlib's counters have 32 bits.
  static void refill(uInt& available, std::uint64_t& left) {
    if (available > 0) return;
    available = static_cast<uInt>(std::min<std::uint64_t>(left, 1u << 30));
    left -= available;
  }

  const std::string& name_;
  z_stream stream_{};
  std::uint64_t left_in_ = 0;
  std::uint64_t left_out_ = 0;
  std::string unpacked_;
};

ZipContent unpack(const ByteReader& reader, const ZipEntry& entry,
                  std::string_view packed) {
  if (entry.method == kStored) {
    if (entry.bytes != entry.packed_bytes)
      reader.fail(entry.offset,
                  "the sizes of an uncompressed entry differ; "
                  "the file is corrupt");
    return ZipContent(packed);
  }
  if (entry.bytes > kMaxRatio * (entry.packed_bytes + 1))
    reader.fail(entry.offset, "its size is impossible; the file is corrupt");
  try {
    auto unpacked = Inflater(reader.name(), packed).run(entry.bytes);
    if (!unpacked)
      reader.fail(entry.offset, "it cannot be inflated; the file is corrupt");
    return ZipContent(std::move(*unpacked));
  } catch (const std::bad_alloc&) {
    reader.fail(entry.offset,
                concat("its ", entry.bytes, " bytes do not fit in memory"));
  }
}

void check_kind(const ByteReader& reader, const ZipEntry& entry) {
  if (entry.flags & kEncrypted)
    reader.fail(entry.offset, "it is encrypted; save it without a password");
  if (entry.method != kStored && entry.method != kDeflated)
    reader.fail(entry.offset,
                concat("unsupported compression method ", entry.method,
                       "; stored (0) and deflated (8) can be read"));
}

// A pipe in place of the file would be waited for.
std::string read_archive(const std::filesystem::path& path) {
  check_memory(path.string(), "its content", OpenFile(path.string()).size());
  return read_file(path);
}

}  // namespace

ZipReader::ZipReader(const std::filesystem::path& path)
    : ZipReader(path.string(), read_archive(path)) {}

ZipReader::ZipReader(std::string name, std::string bytes)
    : name_(std::move(name)),
      bytes_(std::move(bytes)),
      entries_(read_zip_directory(name_, bytes_)) {
  index_names();
}

void ZipReader::index_names() {
  for (const ZipEntry& entry : entries_) by_name_.push_back(&entry);
  std::sort(by_name_.begin(), by_name_.end(),
            [](auto* a, auto* b) { return a->name < b->name; });
  const auto twice =
      std::adjacent_find(by_name_.begin(), by_name_.end(),
                         [](auto* a, auto* b) { return a->name == b->name; });
  if (twice != by_name_.end())
    reader_of_entry(name_, bytes_, **twice)
        .fail((*twice)->offset,
              "two entries have this name; the file is corrupt");
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [](auto* entry, std::string_view wanted) {
                                        return entry->name < wanted;
                                      });
  if (found == by_name_.end() || (*found)->name != name) return nullptr;
  return *found;
}

ZipContent ZipReader::read(const ZipEntry& entry) const {
  ByteReader reader = reader_of_entry(name_, bytes_, entry);
  check_kind(reader, entry);
  reader.seek(entry.begin, "the content");
  ZipContent content =
      unpack(reader, entry, reader.take(entry.packed_bytes, "the content"));
  const auto checksum =
      crc32_z(0, reinterpret_cast<const Bytef*>(content.bytes().data()),
              content.bytes().size());
  if (checksum != entry.checksum)
    reader.fail(entry.begin,
                "the content does not match its checksum; the file "
                "is corrupt");
  return content;
}

}  // namespace sheaf::formats
