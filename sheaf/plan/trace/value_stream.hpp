#pragma once
// Reads the members of a large JSON document one by one.

#include <string_view>

#include "sheaf/plan/trace/text_source.hpp"

namespace sheaf::plan {

// Only finds the end of each value; simdjson parses the contents.
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
