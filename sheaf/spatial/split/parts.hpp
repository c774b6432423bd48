#pragma once
// What a program can ask about a tensor that is split over ranks, and the
// statistics of a rank's exchanges.

#include <torch/types.h>

#include <cstdint>

namespace sheaf::spatial {

bool is_split(const at::Tensor& tensor);
// This rank's part of a split tensor, with its history in autograd. It shares
// the memory of the split tensor.
const at::Tensor& local_of(const at::Tensor& tensor);
// The whole tensor, on all ranks; differentiable. All ranks of the grid must
// call it.
at::Tensor gather(const at::Tensor& split);

// Statistics of one rank in the last step, or since reset_stats().
struct SpatialStats {
  std::int64_t halo_exchanges = 0;
  std::int64_t halo_messages = 0;        // sent
  std::int64_t halo_bytes = 0;           // sent
  std::int64_t halo_bytes_in_place = 0;  // of them, read in place by neighbors
  std::int64_t halo_bytes_read = 0;
  std::int64_t reductions = 0;  // all-reduces and gathers
  std::int64_t reduced_bytes = 0;
  double wait_ms = 0;  // waiting for halos
};

}  // namespace sheaf::spatial
