#pragma once
// Reads the members of a large JSON file, plain or compressed, one by one.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace sheaf::plan {

// Reads the text of a file, plain or compressed with gzip, piece by piece.
class TextSource {
 public:
  // Throws IoError if the file cannot be opened.
  explicit TextSource(const std::filesystem::path& path);
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  // The text read and not yet dropped; invalidated by read_more(). It is
  // followed by as many readable bytes as simdjson may read ahead.
  std::string_view text() const { return {buffer_.data() + begin_, size()}; }
  std::size_t size() const { return end_ - begin_; }
  std::size_t capacity() const { return buffer_.size() - begin_; }
  // Offset of text()'s first byte in the uncompressed file.
  std::uint64_t offset() const { return offset_; }

  // Appends more text, which may move; returns false at the end of the file.
  // Throws IoError for a damaged file, if the text exceeds kLargest, and if the
  // file is compressed too well to be a trace.
  bool read_more();
  void drop(std::size_t bytes);

  // Throws an IoError: "<file>, byte <offset + at>: <what>".
  [[noreturn]] void fail(std::size_t at, std::string_view what) const;

 private:
  static constexpr std::size_t kLargest = std::size_t{64} << 20;

  void check_compression() const;

  struct File;
  std::filesystem::path path_;
  std::unique_ptr<File> file_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
};

// The values of a JSON file. Only finds the end of each value; simdjson parses
// the contents.
class ValueStream {
 public:
  explicit ValueStream(const std::filesystem::path& path) : source_(path) {}

  // The next byte that is not white space, without consuming it; 0 at the end.
  char peek();
  // Consumes the byte if it is next.
  bool take(char wanted);
  // Consumes the byte; if it is not next, throws an IoError with the expected
  // byte and the position.
  void expect(char wanted, std::string_view where);

  // The next value as text; valid until the next call.
  std::string_view value();
  // Number of readable bytes from the start of value().
  std::size_t readable() const { return readable_; }

  std::uint64_t offset() const { return source_.offset(); }
  [[noreturn]] void fail(std::string_view what, std::size_t at = 0) const {
    source_.fail(at, what);
  }

 private:
  TextSource source_;
  std::size_t taken_ = 0;  // size of the last value, not yet dropped
  std::size_t readable_ = 0;
};

}  // namespace sheaf::plan
