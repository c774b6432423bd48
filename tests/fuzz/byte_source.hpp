#pragma once
// Reads numbers and texts from the input of a fuzz target, for targets that
// perform a sequence of operations. After the end all numbers are 0.

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "tests/fuzz/fuzz_target.hpp"

namespace sheaf::fuzz {

class ByteSource {
 public:
  explicit ByteSource(Input input) : left_(input) {}

  bool is_empty() const { return left_.empty(); }
  std::size_t size() const { return left_.size(); }

  // Up to `most` bytes.
  Input take(std::size_t most) {
    const Input bytes = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(bytes.size());
    return bytes;
  }
  template <class T>
  requires std::is_trivially_copyable_v<T> T value() {
    T result{};
    const Input bytes = take(sizeof result);
    if (!bytes.empty())
      std::memcpy(static_cast<void*>(&result), bytes.data(), bytes.size());
    return result;
  }
  std::uint8_t byte() { return value<std::uint8_t>(); }
  // A number below `end`.
  std::size_t below(std::size_t end) {
    return end <= 256 ? byte() % end : value<std::uint32_t>() % end;
  }
  Input rest() { return take(left_.size()); }

 private:
  Input left_;
};

inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace sheaf::fuzz
