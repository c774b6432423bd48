#pragma once
// A buffer of elements in plain memory or in the arena, for tests.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"

namespace sheaf::test {

using Bytes = std::vector<std::byte>;

enum class Memory { kPlain, kArena };

class Elements {
 public:
  // Filled with a pattern that no test expects.
  Elements(const comm::Group& group, Memory memory, DType dtype,
           std::size_t count);
  Elements(const comm::Group& group, Memory memory, DType dtype,
           const Bytes& contents);

  comm::Buffer buffer() const { return {memory_.get(), count_, dtype_}; }
  std::byte* data() const { return memory_.get(); }
  // Compares the contents bit by bit and reports where they differ.
  testing::AssertionResult holds(const Bytes& expected) const;

 private:
  DType dtype_;
  std::size_t count_;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace sheaf::test
