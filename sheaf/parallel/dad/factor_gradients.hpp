#pragma once
// Gradients from the factors of all ranks.

#include <torch/types.h>

#include <vector>

#include "sheaf/parallel/dad/factor_parcel.hpp"
#include "sheaf/parallel/data/reducer.hpp"

namespace sheaf::parallel {

// One thread may take() parts of some weights while another makes gradients of
// those that are complete.
class FactorGradients {
 public:
  FactorGradients(const std::vector<TrainedParameter>& parameters, int ranks);

  // Inputs and deltas of a block may come one after the other.
  void take(int rank, FactorPart part, bool is_backward);
  // The average over ranks of the weight's gradient, and its biases' share.
  // Needs all parts of the weight, and of those that its deltas follow from,
  // which are made first. Gives the rows that were multiplied.
  std::int64_t make(std::size_t weight);

  bool is_made(std::size_t parameter) const { return is_made_[parameter]; }
  const at::Tensor& gradient(std::size_t parameter) const {
    return buffers_[parameter];
  }
  // For the next pass.
  void clear();

 private:
  struct Got {
    int rank = 0;
    BlockKey block;
    DeltaSource source;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> deltas;
    at::Tensor bias_sum;
    bool needs_portable = false;  // see FactorPart
    bool has_backward = false;  // a part has come with deltas, maybe of no rows
  };

  Got* find(int rank, const BlockKey& block);
  void derive_deltas(std::size_t weight);
  void derive_delta(Got& got);
  void add_zeros(std::size_t weight, const Got& got);
  std::vector<Got> merged(std::size_t weight);
  void add_product(std::size_t weight, const Got& all);
  void look_up(std::size_t weight, const WeightView& view,
               const at::Tensor& inputs, const at::Tensor& deltas);
  void add_bias(const Got& all, const at::Tensor& deltas);
  at::Tensor& buffer_for(std::size_t weight);

  const std::vector<TrainedParameter>& parameters_;
  const int ranks_;
  std::vector<std::vector<Got>> got_;  // by parameter
  std::vector<at::Tensor> buffers_;
  // Not vector<bool>: threads write to neighbours.
  std::vector<char> is_made_;
};

}  // namespace sheaf::parallel
