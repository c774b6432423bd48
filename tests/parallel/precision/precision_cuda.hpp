#pragma once
// Tests on a CUDA device, which are skipped without one.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/parallel/precision/cast_kernels.hpp"

namespace sheaf::parallel::test {

class PrecisionOnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(11);
  }
};

// Also needs the kernels of int8 layers.
class Int8OnCuda : public PrecisionOnCuda {
 protected:
  void SetUp() override {
    PrecisionOnCuda::SetUp();
    if (!cast_kernels::are_built()) GTEST_SKIP() << "built without kernels";
  }
};

inline at::TensorOptions on_device(at::ScalarType type) {
  return at::TensorOptions(at::kCUDA).dtype(type);
}

inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kFloat) - b.to(at::kFloat)).norm() /
          b.to(at::kFloat).norm())
      .item<double>();
}

}  // namespace sheaf::parallel::test
