#pragma once
// Computes gradients from the factors of all ranks.

#include <torch/types.h>

#include <vector>

#include "sheaf/parallel/dad/factor_parcel.hpp"
#include "sheaf/parallel/data/reducer.hpp"

namespace sheaf::parallel {

// One thread may call take() for some weights while another calls make() for
// weights that are complete.
class FactorGradients {
 public:
  FactorGradients(const std::vector<TrainedParameter>& parameters, int ranks);

  // Inputs and deltas of a block may arrive separately.
  void take(int rank, FactorPart part, bool is_backward);
  // Computes the average over ranks of the weight's gradient, and its
  // contribution to the biases. Needs all parts of the weight, and of the
  // weights from which its deltas are derived. Returns the number of multiplied
  // rows.
  std::int64_t make(std::size_t weight);
  // After make(): the number of rows of a rank whose deltas were derived.
  std::int64_t derived_rows(std::size_t weight, int rank) const;

  bool is_made(std::size_t parameter) const { return is_made_[parameter]; }
  const at::Tensor& gradient(std::size_t parameter) const {
    return buffers_[parameter];
  }
  // Prepares for the next pass.
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
    // A part with deltas has arrived, possibly without rows.
    bool has_backward = false;
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
  // Not vector<bool>, because threads write to neighboring elements.
  std::vector<char> is_made_;
};

}  // namespace sheaf::parallel
