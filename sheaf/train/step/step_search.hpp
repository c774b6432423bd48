#pragma once
// Finds the cause of a non-finite loss or gradient by repeating a step's
// passes.

#include <cstdint>

#include "sheaf/parallel/precision/loss_scale.hpp"
#include "sheaf/train/step/finite.hpp"
#include "sheaf/train/step/loss_path.hpp"

namespace sheaf::train {

struct StepSearchOptions {
  std::uint64_t seed = 0;  // of the step's random numbers
  // Null: the loss is not scaled.
  const parallel::LossScale* scale = nullptr;
  // Ranks without rows run the passes as well, because layers exchange data.
  bool runs_empty_pieces = false;
};

// Repeats the passes without exchanging gradients and reports the first
// non-finite value on this rank, such as "the output of layer 'fc1'
// (aten::addmm)". Changes no state. All ranks must call it.
NonFiniteCause find_non_finite_value(const LossPath& path,
                                     const data::Batch& batch,
                                     const StepSearchOptions& options);

}  // namespace sheaf::train
