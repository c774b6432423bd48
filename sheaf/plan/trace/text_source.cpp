#include "sheaf/plan/trace/text_source.hpp"

#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kLookAhead = 64;

}  // namespace

// zlib also reads uncompressed files.
struct TextSource::File {
  ~File() {
    if (handle) gzclose(handle);
  }
  gzFile handle = nullptr;
};

TextSource::TextSource(const std::filesystem::path& path)
    : path_(path), file_(std::make_unique<File>()) {
  file_->handle = gzopen(path.c_str(), "rb");
  if (!file_->handle)
    throw IoError(
        concat("cannot read ", path.string(), ": ", std::strerror(errno)));
  gzbuffer(file_->handle, 256 << 10);
}

TextSource::~TextSource() = default;

void TextSource::fail(std::size_t at, std::string_view what) const {
  throw IoError(concat(path_.string(), ", byte ", offset_ + at, ": ", what));
}

bool TextSource::read_more() {
  if (size() >= kLargest) fail(0, "a single value exceeds 256 MiB");
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kPiece + kLookAhead)
    buffer_.resize(2 * end_ + kPiece + kLookAhead);
  const int got = gzread(file_->handle, buffer_.data() + end_,
                         static_cast<unsigned>(kPiece));
  if (got < 0) {
    int code = 0;
    fail(size(), concat("damaged file: ", gzerror(file_->handle, &code)));
  }
  end_ += static_cast<std::size_t>(got);
  // For a truncated compressed file zlib returns the available data and then
  // this error.
  int code = 0;
  const char* message = gzerror(file_->handle, &code);
  if (got == 0 && code != Z_OK && code != Z_STREAM_END)
    fail(size(), concat("the compressed file ends early: ", message));
  return got > 0;
}

void TextSource::drop(std::size_t bytes) {
  begin_ += bytes;
  offset_ += bytes;
}

}  // namespace sheaf::plan
