#pragma once
// The memory of benchmark calls and its content: many slots used in turn, so
// that the input of a call is not in the cache from the previous call, and data
// whose reductions are exact in every element type, so that results can be
// compared bit by bit.

#include <cstddef>
#include <memory>

#include "sheaf/cli/bench/bench_shape.hpp"

namespace sheaf::cli {

// Writes `count` elements of the input of `rank`, starting at element `first`.
void fill_exact(const comm::RivalCall& call, int rank, std::size_t first,
                std::size_t count, void* elements);

// Fills `slot` with the input of a call whose result count_wrong() checks.
void prepare_slot(const Shape& shape, std::byte* slot);

// The number of wrong elements in this rank's result.
std::size_t count_wrong(const Shape& shape, const void* result);

// The number of slots for each of the `ranks` ranks of a host: `rotate` if it
// is positive, else enough that all slots together are at least twice the
// last-level cache, within limits.
std::size_t slots_for(const Shape& shape, int ranks, int rotate);

class Slots {
 public:
  // Allocates in the group's arena or with malloc. All memory is written with
  // valid numbers of the type, so its pages are mapped.
  Slots(const comm::Group& group, DType dtype, bool in_arena,
        std::size_t bytes);

  // Slot `index` if the memory is divided into slots for `shape`.
  std::byte* at(const Shape& shape, std::size_t index) const;

  static std::size_t stride(const Shape& shape);

 private:
  std::shared_ptr<std::byte> memory_;
};

}  // namespace sheaf::cli
