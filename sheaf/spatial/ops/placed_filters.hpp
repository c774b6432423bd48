#pragma once
// Filters that are not shared, each of which is trained only by the rank that
// computes its output. Of a locally connected layer's weights, a rank has the
// current values at its own positions and outdated values elsewhere.

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::spatial {

using parallel::NamedTensors;

// The trained weights of the module's locally connected layers; empty if the
// module has no other trained parameters.
NamedTensors local_filters(torch::nn::Module& module);

class PlacedFilters {
 public:
  // `group`: all ranks; ranks with the same position in different grids have
  // different samples. All ranks must create it together.
  PlacedFilters(NamedTensors filters, std::shared_ptr<Tiles> tiles,
                const comm::Group& group);

  bool has(const at::Tensor& parameter) const;

  // Called at the end of backward(): averages the gradients over the ranks with
  // the same position. Throws UsageError on all ranks if a gradient shows that
  // a parameter is used outside its layer.
  void end_pass();

  // Gathers a tensor with the sizes of a parameter from the positions of all
  // ranks; the result is whole on all ranks. All ranks must call these
  // functions.
  at::Tensor gather(const at::Tensor& parameter, const at::Tensor& own) const;
  void gather_weights();
  // The squared norm of the gradients at all positions.
  double square_of_gradients() const;
  // Throws CheckError if ranks with the same position differ there.
  void check_weights() const;

 private:
  bool has_places(const at::Tensor& parameter) const;
  Split split_of(const at::Tensor& parameter) const;
  at::Tensor own_places(const at::Tensor& parameter,
                        const at::Tensor& tensor) const;
  void share_places();
  void check_use();
  enum class Use { kNone, kLayer, kOther };
  Use use_of(const at::Tensor& parameter) const;

  NamedTensors filters_;
  std::shared_ptr<Tiles> tiles_;
  comm::Group group_;
  comm::Group same_place_;
  bool is_checked_ = false;
};

}  // namespace sheaf::spatial
