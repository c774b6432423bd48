#include "sheaf/plan/trace/value_stream.hpp"

#include <cstring>
#include <utility>

namespace sheaf::plan {
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
