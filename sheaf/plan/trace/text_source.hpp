#pragma once
// The text of a file, plain or compressed by gzip, a piece at a time.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace sheaf::plan {

class TextSource {
 public:
  // IoError when it cannot be opened.
  explicit TextSource(const std::filesystem::path& path);
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  // What has been read and not dropped. More readable bytes follow it than
  // simdjson looks ahead.
  std::string_view text() const { return {buffer_.data() + begin_, size()}; }
  std::size_t size() const { return end_ - begin_; }
  std::size_t capacity() const { return buffer_.size() - begin_; }
  // The place of text()'s first byte in the file, as it is when unpacked.
  std::uint64_t offset() const { return offset_; }

  // Appends more to the text, which moves; false at the end of the file.
  // IoError for damaged files, and for a text that has grown to kLargest.
  bool read_more();
  void drop(std::size_t bytes);

  // IoError: "<file>, byte <offset + at>: <what>".
  [[noreturn]] void fail(std::size_t at, std::string_view what) const;

 private:
  static constexpr std::size_t kLargest = std::size_t{256} << 20;

  struct File;
  std::filesystem::path path_;
  std::unique_ptr<File> file_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace sheaf::plan
