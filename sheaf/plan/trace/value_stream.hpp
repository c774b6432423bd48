#pragma once
// The members of a large JSON document one after the other.

#include <string_view>

#include "sheaf/plan/trace/text_source.hpp"

namespace sheaf::plan {

// Only finds where values end; what is in them is for simdjson.
class ValueStream {
 public:
  explicit ValueStream(const std::filesystem::path& path) : source_(path) {}

  // The next byte that is no white space, which stays; 0 at the end.
  char peek();
  // Takes it if it is there.
  bool take(char wanted);
  // IoError says what was expected, and where.
  void expect(char wanted, std::string_view where);

  // The next value as it is written; valid until the next call.
  std::string_view value();
  // Bytes that can be read from value()'s first on.
  std::size_t readable() const { return readable_; }

  std::uint64_t offset() const { return source_.offset(); }
  [[noreturn]] void fail(std::string_view what, std::size_t at = 0) const {
    source_.fail(at, what);
  }

 private:
  TextSource source_;
  std::size_t taken_ = 0;  // of the value that was given last
  std::size_t readable_ = 0;
};

}  // namespace sheaf::plan
