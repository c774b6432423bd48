#include "sheaf/data/formats/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

constexpr std::int64_t kGzipTrailerBytes = 8;
// Limits the memory that a corrupt length in a trailer can request to this
// multiple of the file size. For higher compression ratios the output buffer
// grows during decompression.
constexpr std::int64_t kUsualRatio = 16;

at::Tensor make_bytes(std::int64_t count) {
  return at::empty({count}, at::TensorOptions(at::kByte));
}

[[noreturn]] void fail_to_read(const std::string& path) {
  throw IoError(concat("cannot read ", path, ": ", std::strerror(errno)));
}

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

FileContent read_packed(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw IoError(concat("cannot read ", path, ": ", error.message()));
  const std::unique_ptr<std::FILE, Closer> file(std::fopen(path.c_str(), "rb"));
  if (!file) fail_to_read(path);
  FileContent content{path, make_bytes(static_cast<std::int64_t>(bytes))};
  const std::size_t got =
      std::fread(content.bytes.data_ptr(), 1, bytes, file.get());
  if (std::ferror(file.get())) fail_to_read(path);
  if (got != bytes)
    content.fail(static_cast<std::int64_t>(got), "the file ends early");
  return content;
}

bool is_gzip(const std::uint8_t* bytes, std::int64_t count) {
  return count >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// The size in the gzip trailer: exact for files with one member below 4 GiB, an
// estimate for others.
std::int64_t guess_unpacked_bytes(const FileContent& packed) {
  if (packed.size() < kGzipTrailerBytes) return 0;
  const std::uint8_t* last = packed.data() + packed.size() - 4;
  const std::int64_t told = last[0] | last[1] << 8 | last[2] << 16 |
                            static_cast<std::int64_t>(last[3]) << 24;
  return std::min(told, packed.size() * kUsualRatio);
}

// Decompresses a gzip file, including files of several concatenated members.
class Unpacker {
 public:
  explicit Unpacker(const FileContent& packed)
      : packed_(packed), out_(make_bytes(guess_unpacked_bytes(packed) + 1)) {
    // 16: gzip format, with verification of the checksum.
    SHEAF_ASSERT(inflateInit2(&stream_, MAX_WBITS + 16) == Z_OK, "zlib");
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  at::Tensor run() {
    while (true) {
      const int code = step();
      if (code == Z_STREAM_END) {
        if (taken_ == packed_.size()) return out_.narrow(0, 0, written_);
        begin_next_part();
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        packed_.fail(taken_, concat("corrupt gzip data (", reason(), ")"));
      } else if (taken_ == packed_.size() && written_ < out_.numel()) {
        packed_.fail(taken_, "the gzip data ends early");
      }
    }
  }

 private:
  // zlib's counters have 32 bits.
  static uInt window(std::int64_t bytes) {
    constexpr std::int64_t kMost = std::numeric_limits<uInt>::max();
    return static_cast<uInt>(std::min(bytes, kMost));
  }

  int step() {
    if (written_ == out_.numel()) grow();
    const uInt in = window(packed_.size() - taken_);
    const uInt room = window(out_.numel() - written_);
    stream_.next_in = const_cast<Bytef*>(packed_.data() + taken_);
    stream_.next_out = out_.data_ptr<std::uint8_t>() + written_;
    stream_.avail_in = in;
    stream_.avail_out = room;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    taken_ += in - stream_.avail_in;
    written_ += room - stream_.avail_out;
    return code;
  }

  void grow() {
    at::Tensor larger = make_bytes(2 * out_.numel() + 4096);
    larger.narrow(0, 0, written_).copy_(out_.narrow(0, 0, written_));
    out_ = larger;
  }

  void begin_next_part() {
    if (!is_gzip(packed_.data() + taken_, packed_.size() - taken_))
      packed_.fail(taken_, "unexpected data after the gzip data");
    inflateReset(&stream_);
  }

  const char* reason() const {
    return stream_.msg ? stream_.msg : "no reason given";
  }

  const FileContent& packed_;
  at::Tensor out_;
  z_stream stream_{};
  std::int64_t taken_ = 0;
  std::int64_t written_ = 0;
};

struct Descriptor {
  explicit Descriptor(const std::string& path)
      : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number < 0) fail_to_read(path);
  }
  ~Descriptor() { ::close(number); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int number;
};

}  // namespace

void FileContent::fail(std::int64_t offset, std::string_view what) const {
  throw IoError(concat(path, ": ", what, ", at byte ", offset,
                       was_unpacked ? " of its decompressed content" : ""));
}

FileContent read_file(const std::string& path) {
  FileContent content = read_packed(path);
  if (!is_gzip(content.data(), content.size())) return content;
  return {path, Unpacker(content).run(), /*was_unpacked=*/true};
}

// A private writable mapping: writing to the tensor must not crash, and changes
// do not reach the file.
FileContent map_file(const std::string& path) {
  const Descriptor file(path);
  struct stat about {};
  if (::fstat(file.number, &about) != 0) fail_to_read(path);
  const auto bytes = static_cast<std::size_t>(about.st_size);
  if (bytes == 0 || !S_ISREG(about.st_mode)) return read_file(path);
  void* place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_NORESERVE, file.number, 0);
  if (place == MAP_FAILED) fail_to_read(path);
  FileContent content{path,
                      at::from_blob(
                          place, {about.st_size},
                          [bytes](void* begin) { ::munmap(begin, bytes); },
                          at::TensorOptions(at::kByte))};
  if (!is_gzip(content.data(), content.size())) return content;
  return {path, Unpacker(content).run(), /*was_unpacked=*/true};
}

std::string source_of(const FileContent& content) {
  return content.was_unpacked ? "files decompressed into memory"
                              : "mapped files";
}

std::string find_file(const std::string& folder, const std::string& name) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  std::error_code none;
  for (const std::string& candidate : {path, path + ".gz"})
    if (std::filesystem::is_regular_file(candidate, none)) return candidate;
  return "";
}

std::uint32_t crc32_of(const FileContent& content) {
  return static_cast<std::uint32_t>(
      crc32_z(0, content.data(), static_cast<std::size_t>(content.size())));
}

}  // namespace sheaf::data
