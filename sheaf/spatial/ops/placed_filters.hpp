#pragma once
// Filters that are not shared, each of which is trained by the rank whose
// output it makes, and by no other: of a locally connected layer's weights a
// rank has its own places as they are, and others as they once were.

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::spatial {

using parallel::NamedTensors;

// The weights of the module's locally connected layers that are trained; none
// where it has no other parameters.
NamedTensors local_filters(torch::nn::Module& module);

class PlacedFilters {
 public:
  // `group`: all ranks; those with the same place of a grid each have samples
  // of their own. All ranks make it together.
  PlacedFilters(NamedTensors filters, std::shared_ptr<Tiles> tiles,
                const comm::Group& group);

  bool has(const at::Tensor& parameter) const;

  // Called at the end of backward(): the gradients are averaged over the ranks
  // with the same place. UsageError on all ranks where a gradient shows that a
  // parameter is used in other ways than by its layer.
  void end_pass();

  // A tensor of the sizes of a parameter, whole on all ranks, of each rank's
  // places of it. All ranks call these.
  at::Tensor gather(const at::Tensor& parameter, const at::Tensor& own) const;
  void gather_weights();
  // Of the gradients of all places.
  double square_of_gradients() const;
  // CheckError where ranks with the same place differ in it.
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
