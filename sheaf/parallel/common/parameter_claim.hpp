#pragma once
// A parameter is trained by one wrapper (DataParallel, DadParallel) at a time:
// two would both average its gradient.

#include <cstdint>
#include <vector>

#include "sheaf/parallel/common/trained_parameter.hpp"

namespace sheaf::parallel {

class ParameterClaim {
 public:
  ParameterClaim() = default;
  ~ParameterClaim() { set({}); }
  ParameterClaim(const ParameterClaim&) = delete;
  ParameterClaim& operator=(const ParameterClaim&) = delete;

  // Claims these in place of those before. Others may have them still: a
  // wrapper is often made before the one that it replaces is destroyed.
  void set(const std::vector<TrainedParameter>& parameters);
  // Before the parameters are used: UsageError, naming the first, where others
  // have some of them.
  void check();

 private:
  std::vector<TrainedParameter> parameters_;
  std::int64_t checked_ = -1;  // the state of all claims that was found good
};

}  // namespace sheaf::parallel
