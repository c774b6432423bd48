#pragma once
// The memory that calls work on: many slots that are used in turn, so that
// what a call reads is not still in the cache from the call before.

#include <cstddef>
#include <memory>

#include "sheaf/cli/bench/bench_shape.hpp"

namespace sheaf::cli {

// How many slots of that size each of `ranks` ranks of a host should use.
// `rotate` > 0 says it; else so many that all of them together are at least
// twice the last-level cache, within limits.
std::size_t slots_for(const Shape& shape, int ranks, int rotate);

class Slots {
 public:
  // In the group's arena, or from malloc as any program's memory. All of it
  // is touched, and holds harmless numbers of that type.
  Slots(const comm::Group& group, DType dtype, bool in_arena,
        std::size_t bytes);

  // Slot `index` of those that hold `shape`.
  std::byte* at(const Shape& shape, std::size_t index) const;

  static std::size_t stride(const Shape& shape);

 private:
  std::shared_ptr<std::byte> memory_;
};

}  // namespace sheaf::cli
