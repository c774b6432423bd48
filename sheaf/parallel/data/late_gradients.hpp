#pragma once
// Gradients of parameters that already had one in the same pass, as with nested
// backward() calls. The first one may already be in an exchange, so the others
// are averaged separately at the end of the pass.

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"

namespace sheaf::parallel {

class LateGradients {
 public:
  // `parameters` must outlive this object.
  explicit LateGradients(const std::vector<TrainedParameter>& parameters)
      : parameters_(parameters), late_(parameters.size()) {}

  // Copies the parameter's gradient, or adds it to earlier ones. Throws
  // UsageError if the parameter's gradients are sparse.
  void take(std::size_t parameter);
  bool has(std::size_t parameter) const { return late_[parameter].defined(); }
  // Adds the average of all ranks' late gradients to the parameter's gradient.
  // All ranks must call it, also those without a late gradient. Returns the
  // number of bytes that this rank sent.
  std::int64_t add_average(std::size_t parameter, const comm::Group& group,
                           int divisor, const std::string& name);
  void clear();

 private:
  const std::vector<TrainedParameter>& parameters_;
  std::vector<at::Tensor> late_;  // by parameter
};

}  // namespace sheaf::parallel
