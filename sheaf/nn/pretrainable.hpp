#pragma once
// Networks whose layers of filters can be trained one after the other without
// labels, before the whole is trained with them.

#include <torch/types.h>

#include <cstddef>
#include <vector>

#include "sheaf/nn/locally_connected.hpp"

namespace sheaf::nn {

// A stack of stages and a classifier on top. Filters are the first layer of
// their stage. A network is this beside being a module; dynamic_cast finds out.
class Pretrainable {
 public:
  virtual ~Pretrainable() = default;

  virtual std::size_t stages() const = 0;

  // What the filters of stage `stage`, counted from 0, get to see; with as many
  // as there are stages, what the classifier sees.
  virtual at::Tensor run_to(std::size_t stage, at::Tensor images) = 0;
  virtual LocallyConnected2d filters(std::size_t stage) = 0;
  // The part of the stage, after its filters, whose sum is to be small.
  virtual at::Tensor pool(std::size_t stage, const at::Tensor& filtered) = 0;

  // While it is on, forward() makes no gradients but the classifier's.
  virtual void train_classifier_alone(bool is_on) = 0;
  virtual std::vector<at::Tensor> classifier_parameters() const = 0;
};

// Every filter to length 1.
void normalise_filters(Pretrainable& network);

}  // namespace sheaf::nn
