#pragma once
// The stack of the pickle machine.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/formats/pickle.hpp"

namespace sheaf::formats {

class PickleStack {
 protected:
  using Kind = PickleValue::Kind;

  // torch.save does not nest deeper, and deeper nesting could exhaust the call
  // stack.
  static constexpr int kMaxDepth = 1000;

  explicit PickleStack(ByteReader& reader) : reader_(reader) {}

  void push_items(Kind kind, std::vector<PickleValue> values) {
    push({.kind = kind, .items = std::make_shared<PickleItems>()});
    add(kind, std::move(values));
  }

  // Appends `values` to the container on top of the stack. Items of objects
  // whose class derives from list or dict are ignored.
  void add(Kind kind, std::vector<PickleValue> values) {
    PickleValue& container = top();
    if (container.kind == Kind::kCall) return;
    if (container.kind != kind)
      fail("items for a value that is not a container");
    if (kind == Kind::kDictionary && values.size() % 2 != 0)
      fail("a key without a value");
    for (PickleValue& value : values) {
      if (value.items) {
        container.items->depth =
            std::max(container.items->depth, value.items->depth + 1);
      }
      container.items->values.push_back(std::move(value));
    }
    if (container.items->depth > kMaxDepth) fail("values nested too deeply");
  }

  void push(PickleValue value) { stack_.push_back(std::move(value)); }

  PickleValue& top() {
    if (stack_.empty() || stack_.back().kind == Kind::kMark)
      fail("a value is missing");
    return stack_.back();
  }

  PickleValue pop() {
    PickleValue value = std::move(top());
    stack_.pop_back();
    return value;
  }

  std::vector<PickleValue> pop_last(std::size_t count) {
    std::vector<PickleValue> values(count);
    for (std::size_t i = count; i > 0; --i) values[i - 1] = pop();
    return values;
  }

  std::vector<PickleValue> pop_to_mark() {
    std::size_t begin = stack_.size();
    while (begin > 0 && stack_[begin - 1].kind != Kind::kMark) --begin;
    if (begin == 0) fail("a mark is missing");
    std::vector<PickleValue> values(
        std::make_move_iterator(stack_.begin() +
                                static_cast<std::ptrdiff_t>(begin)),
        std::make_move_iterator(stack_.end()));
    stack_.resize(begin - 1);
    return values;
  }

  [[noreturn]] void fail(const std::string& message) const {
    reader_.fail(op_offset_, "in the pickle: " + message +
                                 "; the file is corrupt, or not written by "
                                 "torch.save");
  }

  ByteReader& reader_;
  std::size_t op_offset_ = 0;  // of the current instruction

 private:
  std::vector<PickleValue> stack_;
};

}  // namespace sheaf::formats
