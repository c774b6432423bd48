#pragma once
// The memory of the pickle machine: its stack, the marks on the stack, the
// memo, and the containers that the values refer to.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/archives/pickle.hpp"

namespace sheaf::formats {

class PickleStack {
 protected:
  using Kind = PickleValue::Kind;

  PickleStack(ByteReader& reader, std::uint64_t max_bytes)
      : reader_(reader), max_bytes_(max_bytes) {}

  void push(PickleValue value) {
    stack_.push_back(value);
    if (stack_.size() <= most_values_) return;
    most_values_ = stack_.size();
    charge(sizeof value);
  }

  void push_mark() {
    charge(sizeof(std::size_t));
    marks_.push_back(stack_.size());
  }

  // Removes the last mark and returns the number of values above it.
  std::size_t pop_mark() {
    if (marks_.empty()) fail("a mark is missing");
    const std::size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return count;
  }

  // The last `count` values; only those above the last mark can be used.
  std::span<const PickleValue> last(std::size_t count) const {
    const std::size_t begin = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - begin < count) fail("a value is missing");
    return {stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end()};
  }

  const PickleValue& top() const { return last(1)[0]; }

  void drop(std::size_t count) {
    last(count);
    stack_.resize(stack_.size() - count);
  }

  // Replaces the last `count` values by a container of them.
  void gather(Kind kind, std::size_t count) {
    check_pairs(kind, count);
    const auto values = last(count);
    const PickleValue container(kind, make_items(values));
    drop(count);
    push(container);
  }

  // Replaces the values above the last mark by a container of them.
  void gather_to_mark(Kind kind) {
    const std::size_t count = pop_mark();
    gather(kind, count);
  }

  // Moves the last `count` values into the container below them. Items of
  // objects whose class derives from list or dict are ignored.
  void append(Kind kind, std::size_t count) {
    const PickleValue container = last(count + 1)[0];
    if (!container.is(Kind::kCall)) {
      if (!container.is(kind) || !container.has_items())
        fail("items for a value that is not a container");
      check_pairs(kind, count);
      // Vectors have up to twice the memory they need.
      charge(2 * count * sizeof container);
      auto& values = container.items_->values;
      values.insert(values.end(), last(count).begin(), last(count).end());
    }
    drop(count);
  }

  void append_to_mark(Kind kind) {
    const std::size_t count = pop_mark();
    append(kind, count);
  }

  void push_name(std::string_view module, std::string_view name) {
    charge(sizeof(std::string) + module.size() + name.size());
    std::string& text = pickle_.names_.emplace_back(module);
    text += '.';
    text += name;
    push({Kind::kGlobal, text});
  }

  void store(std::size_t place, PickleValue value) {
    // Picklers number the entries of the memo without gaps.
    if (place >= std::max(reader_.size(), kMinMemo))
      fail(concat("a memo index of ", place));
    if (place >= memo_.size()) {
      charge((place + 1 - memo_.size()) * sizeof value);
      memo_.resize(place + 1);
    }
    stored_ += memo_[place].is(Kind::kUnset);
    memo_[place] = value;
  }

  void push_stored(std::size_t place) {
    if (place >= memo_.size() || memo_[place].is(Kind::kUnset))
      fail("an empty memo entry is used");
    push(memo_[place]);
  }

  std::size_t stored() const { return stored_; }

  Pickle finish() {
    pickle_.root_ = top();
    return std::move(pickle_);
  }

  [[noreturn]] void fail(const std::string& message) const {
    reader_.fail(op_offset_, "in the pickle: " + message +
                                 "; the file is corrupt, or not written by "
                                 "torch.save");
  }

  ByteReader& reader_;
  std::size_t op_offset_ = 0;  // of the current instruction

 private:
  static constexpr std::size_t kMinMemo = 4096;
  static constexpr std::size_t kAllocation = 16;  // overhead of the heap

  PickleItems* make_items(std::span<const PickleValue> values) {
    charge(sizeof(PickleItems) + kAllocation + values.size_bytes());
    PickleItems& items = pickle_.containers_.emplace_back();
    items.values.assign(values.begin(), values.end());
    return &items;
  }

  void check_pairs(Kind kind, std::size_t count) const {
    if (kind == Kind::kDictionary && count % 2 != 0)
      fail("a key without a value");
  }

  void charge(std::uint64_t bytes) {
    used_bytes_ += bytes;
    if (used_bytes_ > max_bytes_)
      fail(concat("its values need more than ", max_bytes_,
                  " bytes of memory, too much for the size of the file"));
  }

  std::uint64_t max_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::size_t most_values_ = 0;
  std::size_t stored_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue> memo_;
  Pickle pickle_;
};

}  // namespace sheaf::formats
