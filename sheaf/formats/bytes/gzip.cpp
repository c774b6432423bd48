#include "sheaf/formats/bytes/gzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/base/units.hpp"

namespace sheaf::formats {
namespace {

constexpr std::size_t kGzipTrailerBytes = 8;
// The first allocation is at most this multiple of the file: most files are
// compressed less, and the length in a corrupt trailer can be anything. For
// others the memory grows during decompression.
constexpr std::size_t kUsualRatio = 16;

// The size in the trailer: exact for files with one member below 4 GiB, an
// estimate for others.
std::size_t guess_unpacked_bytes(const FileBytes& packed) {
  if (packed.size < kGzipTrailerBytes) return 0;
  const std::uint8_t* last = packed.data() + packed.size - 4;
  const std::size_t told = last[0] | last[1] << 8 | last[2] << 16 |
                           static_cast<std::size_t>(last[3]) << 24;
  return std::min(told, packed.size * kUsualRatio);
}

class Unpacker {
 public:
  Unpacker(const FileBytes& packed, AvailableMemory available)
      : packed_(packed), available_(available) {
    resize_to(guess_unpacked_bytes(packed) + 1);
    // 16: gzip format, with verification of the checksum.
    if (inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK)
      throw IoError(concat(packed.path, ": not enough memory to decompress"));
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  FileBytes run() {
    while (true) {
      const int code = step();
      if (code == Z_STREAM_END) {
        if (taken_ == packed_.size) return finish();
        begin_next_member();
      } else if (code == Z_MEM_ERROR) {
        throw IoError(
            concat(packed_.path, ": not enough memory to decompress"));
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        packed_.fail(taken_, concat("corrupt gzip data (", reason(), ")"));
      } else if (taken_ == packed_.size && written_ < granted_) {
        packed_.fail(taken_, "the gzip data ends early");
      }
    }
  }

 private:
  // zlib's counters have 32 bits.
  static uInt window(std::size_t bytes) {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    return static_cast<uInt>(std::min(bytes, kMost));
  }

  int step() {
    if (written_ == granted_) grant_more();
    const uInt in = window(packed_.size - taken_);
    const uInt room = window(granted_ - written_);
    stream_.next_in = const_cast<Bytef*>(packed_.data() + taken_);
    stream_.next_out = memory_.get() + written_;
    stream_.avail_in = in;
    stream_.avail_out = room;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    taken_ += in - stream_.avail_in;
    written_ += room - stream_.avail_out;
    return code;
  }

  // Memory that was allocated but never written takes no space, so the check is
  // made when it is about to be written.
  void grant_more() {
    if (written_ == size_) resize_to(size_ + size_ / 2 + 4096);
    if (written_ == checked_) {
      check_memory(packed_.path,
                   concat("its content, of which ", format_bytes(written_),
                          " are decompressed,"),
                   kMemoryPart, available_);
      checked_ += kMemoryPart;
    }
    granted_ = std::min(size_, checked_);
  }

  void resize_to(std::size_t bytes) {
    resize(memory_, packed_.path, "its decompressed content", bytes);
    size_ = bytes;
  }

  void begin_next_member() {
    if (!is_gzip(packed_.bytes().subspan(taken_)))
      packed_.fail(taken_, "unexpected data after the gzip data");
    inflateReset(&stream_);
  }

  FileBytes finish() {
    return {packed_.path,
            {memory_.release(), FreeBytes()},
            written_,
            /*was_unpacked=*/true};
  }

  const char* reason() const {
    return stream_.msg ? stream_.msg : "no reason given";
  }

  const FileBytes& packed_;
  const AvailableMemory available_;
  Memory memory_;
  std::size_t size_ = 0;               // of the memory
  std::size_t granted_ = 0;            // the part of it that may be written
  std::size_t checked_ = kMemoryPart;  // available when it was checked
  std::size_t written_ = 0;
  std::size_t taken_ = 0;
  z_stream stream_{};
};

}  // namespace

bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

FileBytes unpack_gzip(const FileBytes& packed, AvailableMemory available) {
  return Unpacker(packed, available).run();
}

}  // namespace sheaf::formats
