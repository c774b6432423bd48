#include "sheaf/train/step/step_search.hpp"

#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/train/checkpoint/kept_state.hpp"
#include "sheaf/train/step/non_finite.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;

// The order within a step; see NonFiniteCause.
enum Place : int { kInBatch, kInPasses, kInWeights };

// Describes the first non-finite row; empty if all are finite.
std::string find_in_rows(const Tensor& rows, const char* what) {
  if (is_finite(rows)) return "";
  std::int64_t row = 0;
  while (is_finite(rows[row])) ++row;
  return concat("the ", what, " of row ", row, " of the rank's ", rows.size(0),
                " rows of the batch");
}

std::string find_in_batch(const data::Batch& batch) {
  const std::string in_data = find_in_rows(batch.data, "input");
  return in_data.empty() ? find_in_rows(batch.target, "target") : in_data;
}

std::string find_in_piece(const LossPath& path, const Piece& piece,
                          const StepSearchOptions& options) {
  if (piece.rows() == 0 && !options.runs_empty_pieces) return "";
  const Autocast autocast = path.network.autocast();
  NonFiniteSearch search(path.network.module());
  Tensor sum;
  {
    const auto scope = path.network.plan_scope();
    sum = path.loss.sum(path.network.forward(piece.data), piece.target);
  }
  Tensor loss = sum * piece.weight;
  if (options.scale) loss = options.scale->scaled(loss);
  const std::string in_forward = search.find_in_forward(sum);
  const std::string in_backward = search.find_in_backward(loss);
  return in_forward.empty() ? in_backward : in_forward;
}

// Layers may exchange data, so every rank runs all of its passes.
std::string find_in_passes(const LossPath& path, const data::Batch& batch,
                           const StepSearchOptions& options) {
  std::string first;
  for (std::int64_t i = 0; i < path.cutter.pieces_of(batch); ++i) {
    const std::string found =
        find_in_piece(path, path.cutter.piece(batch, i), options);
    if (first.empty()) first = found;
  }
  return first;
}

}  // namespace

NonFiniteCause find_non_finite_value(const LossPath& path,
                                     const data::Batch& batch,
                                     const StepSearchOptions& options) {
  const std::string weight = path.network.find_non_finite_weight();
  const std::string in_batch = find_in_batch(batch);
  const KeptState kept(path.network.module(), path.network.device());
  torch::manual_seed(options.seed);
  const std::string in_passes = find_in_passes(path, batch, options);
  if (!in_batch.empty()) return {in_batch, kInBatch};
  if (!in_passes.empty()) return {in_passes, kInPasses};
  if (weight.empty()) return {};
  return {concat("the weight or buffer '", weight, "', before the step"),
          kInWeights};
}

}  // namespace sheaf::train
