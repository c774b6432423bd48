#pragma once
// A parameter is trained by one wrapper (DataParallel, DadParallel) at a time:
// two would both average its gradient.

#include <vector>

#include "sheaf/parallel/reducer.hpp"

namespace sheaf::parallel {

class ParameterClaim {
 public:
  ParameterClaim() = default;
  ~ParameterClaim() { set({}); }
  ParameterClaim(const ParameterClaim&) = delete;
  ParameterClaim& operator=(const ParameterClaim&) = delete;

  // Claims these in place of those before. If another claim of this process
  // has one of them, a UsageError names it, and nothing has changed.
  void set(const std::vector<ReducedParameter>& parameters);

 private:
  std::vector<at::Tensor> parameters_;
};

}  // namespace sheaf::parallel
