#include "tests/support/elements.hpp"

#include <algorithm>
#include <cstring>

namespace sheaf::test {

Elements::Elements(const comm::Group& group, Memory memory, DType dtype,
                   std::size_t count)
    : dtype_(dtype), count_(count) {
  const std::size_t bytes = count * size_of(dtype);
  memory_ = memory == Memory::kArena ? group.allocate_bytes(bytes)
                                     : std::shared_ptr<std::byte>(
                                           new std::byte[bytes + 1],
                                           std::default_delete<std::byte[]>());
  if (bytes) std::memset(memory_.get(), 0x5a, bytes);
}

Elements::Elements(const comm::Group& group, Memory memory, DType dtype,
                   const Bytes& contents)
    : Elements(group, memory, dtype, contents.size() / size_of(dtype)) {
  if (!contents.empty())
    std::memcpy(memory_.get(), contents.data(), contents.size());
}

testing::AssertionResult Elements::holds(const Bytes& expected) const {
  const std::size_t element = size_of(dtype_);
  if (expected.size() != count_ * element)
    return testing::AssertionFailure()
           << count_ << " elements, expected " << expected.size() / element;
  if (expected.empty() ||
      std::memcmp(memory_.get(), expected.data(), expected.size()) == 0)
    return testing::AssertionSuccess();
  const auto at =
      std::mismatch(expected.begin(), expected.end(), memory_.get());
  return testing::AssertionFailure()
         << "wrong from element "
         << static_cast<std::size_t>(at.first - expected.begin()) / element
         << " on: byte " << std::to_integer<int>(*at.second) << ", expected "
         << std::to_integer<int>(*at.first);
}

}  // namespace sheaf::test
