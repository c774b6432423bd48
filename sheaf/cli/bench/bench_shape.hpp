#pragma once
// One call of a sweep: its element count, the layout of input and output, and
// the lower bound of its time.

#include <cstddef>
#include <vector>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/comm/rivals/rival.hpp"
#include "sheaf/topo/predict.hpp"

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
  comm::RivalCall call;
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

// Lower bound in microseconds for a call on `bytes` (the size column): the
// longer of two times. One reads every input and writes every output once in
// the memory of the host with the most ranks; the other moves the data that
// must leave or enter a host through its network. 0 for a barrier and for one
// rank. docs/reference/bench.md has the formulas.
double bound_us(comm::Operation operation, const topo::Machine& machine,
                const topo::Placement& placement, double bytes);

}  // namespace sheaf::cli
