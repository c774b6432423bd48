#pragma once
// One call of a sweep: its element count and the layout of input and output.

#include <cstddef>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/options.hpp"
#include "sheaf/comm/rivals/rival.hpp"

namespace sheaf::cli {

struct ShapeRequest {
  comm::Operation operation = comm::Operation::kAllReduce;
  DType dtype = DType::kF32;
  comm::ReduceOp op = comm::ReduceOp::kSum;
  int root = 0;
  bool in_place = true;   // ignored if the operation cannot be in place
  std::size_t bytes = 0;  // S: see docs/reference/bench.md, "size"
  int rank = 0;
  int ranks = 1;
};

// A slot is the memory of one call: separate input and output, or one buffer
// for both.
struct Shape {
  comm::BaselineCall call;
  int rank = 0;
  int ranks = 1;
  std::size_t size_bytes = 0;  // after rounding to whole blocks
  // Offsets and counts in elements, from the start of the slot.
  std::size_t input_at = 0;
  std::size_t input_count = 0;
  std::size_t output_at = 0;
  std::size_t output_count = 0;

  std::size_t slot_bytes() const;
  const std::byte* input(const std::byte* slot) const;
  std::byte* output(std::byte* slot) const;
};

Shape make_shape(const ShapeRequest& request);

// The factor in busbw = factor * algbw.
double bus_factor(comm::Operation operation, int ranks);

// Runs the call once with Sheaf.
void run_ours(const comm::Group& group, const Shape& shape, std::byte* slot,
              const comm::CollectiveOptions& options);

}  // namespace sheaf::cli
