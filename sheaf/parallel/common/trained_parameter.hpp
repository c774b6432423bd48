#pragma once
// A parameter whose gradient is exchanged between ranks, and the wrapper that
// exchanges it.

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sheaf::parallel {

struct TrainedParameter {
  std::string name;
  at::Tensor tensor;
  bool is_sparse = false;  // its gradients are sparse tensors
};

// Ensures that a parameter is trained by one wrapper (DataParallel,
// DadParallel) at a time: two wrappers would both average its gradient.
class ParameterClaim {
 public:
  ParameterClaim() = default;
  ~ParameterClaim() { set({}); }
  ParameterClaim(const ParameterClaim&) = delete;
  ParameterClaim& operator=(const ParameterClaim&) = delete;

  // Claims these parameters and releases the previous ones. Other claims on
  // them are allowed at this point: a wrapper is often created before the one
  // that it replaces is destroyed.
  void set(const std::vector<TrainedParameter>& parameters);
  // Must be called before the parameters are used. Throws UsageError, with the
  // name of the first parameter that another wrapper has claimed.
  void check();

 private:
  std::vector<TrainedParameter> parameters_;
  // Value of the change counter at the last successful check.
  std::int64_t checked_ = -1;
};

}  // namespace sheaf::parallel
