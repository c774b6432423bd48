#pragma once
// Networks whose filter layers can be pretrained one after another without
// labels, before supervised training of the whole network.

#include <torch/types.h>

#include <cstddef>
#include <vector>

#include "sheaf/nn/locally_connected.hpp"

namespace sheaf::nn {

// A stack of stages with a classifier on top. The filters are the first layer
// of each stage. Networks implement this in addition to Network; test for it
// with dynamic_cast.
class Pretrainable {
 public:
  virtual ~Pretrainable() = default;

  virtual std::size_t stages() const = 0;

  // The input of the filters of stage `stage`, counted from 0; for
  // stage == stages(), the input of the classifier.
  virtual at::Tensor run_to(std::size_t stage, at::Tensor images) = 0;
  virtual LocallyConnected2d filters(std::size_t stage) = 0;
  // The pooling after the filters, whose sum is the sparsity penalty.
  virtual at::Tensor pool(std::size_t stage, const at::Tensor& filtered) = 0;

  // While on, forward() computes gradients only for the classifier.
  virtual void train_classifier_alone(bool is_on) = 0;
  virtual std::vector<at::Tensor> classifier_parameters() const = 0;
};

// Scales every filter of every stage to length 1.
void normalize_filters(Pretrainable& network);

}  // namespace sheaf::nn
