#include "sheaf/plan/trace/value_stream.hpp"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kLookAhead = 64;
// Traces compress 10 to 30 times; up to 1032 times are possible.
constexpr std::uint64_t kMostCompression = 200;
constexpr std::uint64_t kSmall = std::uint64_t{64} << 20;

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

// A file of some megabytes could keep the reader busy for minutes, with values
// that use memory a thousand times its size.
void TextSource::check_compression() const {
  const std::uint64_t text = offset_ + size();
  const auto read = static_cast<std::uint64_t>(gzoffset(file_->handle));
  if (text > kSmall && text / kMostCompression > read)
    fail(size(), concat("the file is compressed more than ", kMostCompression,
                        " times, unlike any trace; decompress it with gzip -d "
                        "if it is one"));
}

bool TextSource::read_more() {
  if (size() >= kLargest) fail(0, "a single value exceeds 64 MiB");
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
  check_compression();
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

namespace {

bool is_space(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r';
}

// Finds the end of a value in a text that may be incomplete.
class EndFinder {
 public:
  // Returns whether the end was found; continues from the previous position.
  bool look(std::string_view text) {
    while (at_ < text.size() && !is_done_)
      if (is_in_string_)
        pass_string(text);
      else
        pass_structure(text);
    return is_done_;
  }
  std::size_t end() const { return at_; }
  // Numbers and words end at the latest with the document.
  bool may_end_here() const { return depth_ == 0 && !is_in_string_ && at_ > 0; }

 private:
  void pass_string(std::string_view text) {
    const char* from = text.data() + at_;
    const auto* quote =
        static_cast<const char*>(std::memchr(from, '"', text.size() - at_));
    const std::size_t stop =
        quote ? static_cast<std::size_t>(quote - text.data()) : text.size();
    std::size_t slashes = at_ == 0 ? 0 : trailing_;
    std::size_t back = stop;
    while (back > at_ && text[back - 1] == '\\') --back;
    slashes = back == at_ ? slashes + (stop - back) : stop - back;
    at_ = stop;
    if (!quote) {
      trailing_ = slashes;
      return;
    }
    trailing_ = 0;
    ++at_;
    if (slashes % 2 == 1) return;  // an escaped quote
    is_in_string_ = false;
    is_done_ = depth_ == 0;
  }

  void pass_structure(std::string_view text) {
    switch (text[at_]) {
      case '"':
        if (depth_ == 0 && has_begun_) return finish();
        is_in_string_ = true;
        trailing_ = 0;
        break;
      case '{':
      case '[':
        ++depth_;
        break;
      case '}':
      case ']':
        if (depth_ == 0) return finish();
        if (--depth_ == 0) {
          ++at_;
          return finish();
        }
        break;
      case ',':
      case ' ':
      case '\n':
      case '\r':
      case '\t':
        if (depth_ == 0) return finish();
        break;
      default:
        break;
    }
    has_begun_ = true;
    ++at_;
  }
  void finish() { is_done_ = true; }

  std::size_t at_ = 0;
  std::size_t trailing_ = 0;  // backslashes before at_, in a string
  int depth_ = 0;
  bool is_in_string_ = false;
  bool has_begun_ = false;
  bool is_done_ = false;
};

}  // namespace

char ValueStream::peek() {
  source_.drop(std::exchange(taken_, 0));
  for (;;) {
    const std::string_view text = source_.text();
    std::size_t at = 0;
    while (at < text.size() && is_space(text[at])) ++at;
    source_.drop(at);
    if (at < text.size()) return source_.text()[0];
    if (!source_.read_more()) return 0;
  }
}

bool ValueStream::take(char wanted) {
  if (peek() != wanted) return false;
  source_.drop(1);
  return true;
}

void ValueStream::expect(char wanted, std::string_view where) {
  const char found = peek();
  if (found == wanted) return source_.drop(1);
  std::string what = found ? std::string("'") + found + "'" : "the end";
  fail(std::string("expected '") + wanted + "' " + std::string(where) +
       ", found " + what + (found ? "" : ": the file ends early"));
}

std::string_view ValueStream::value() {
  if (!peek()) fail("expected a value, found the end: the file ends early");
  EndFinder finder;
  while (!finder.look(source_.text())) {
    if (source_.read_more()) continue;
    if (!finder.may_end_here())
      fail("the file ends early, in a value that begins here");
    break;
  }
  taken_ = finder.end();
  if (taken_ == 0) fail("expected a value");
  readable_ = source_.capacity();
  return source_.text().substr(0, taken_);
}

}  // namespace sheaf::plan
