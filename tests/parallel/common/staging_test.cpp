#include "sheaf/parallel/common/staging.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace sheaf::parallel {
namespace {

// Marks and waits have no effect there.
TEST(Staging, OnTheCpuCopiesAtOnce) {
  const at::Tensor block = torch::arange(4.0), host = torch::zeros({4});
  Staging staging(block, host);
  staging.mark();
  block.add_(1);
  staging.to_host();
  EXPECT_TRUE(host.equal(torch::arange(1.0, 5.0)));
  host.mul_(2);
  EXPECT_TRUE(block.equal(torch::arange(1.0, 5.0))) << "separate memory";
  staging.to_device();
  staging.wait_on_device();
  EXPECT_TRUE(block.equal(torch::arange(2.0, 10.0, 2.0)));
}

// The types may differ, as with 16-bit staging memory.
TEST(Staging, CopiesConvertTypesAndAreNotRecorded) {
  const at::Tensor block = torch::full({3}, 1.5).set_requires_grad(true);
  const at::Tensor host = torch::zeros({3}, at::kHalf);
  Staging staging(block, host);
  staging.to_host();
  EXPECT_TRUE(host.equal(torch::full({3}, 1.5, at::kHalf)));
  EXPECT_FALSE(host.requires_grad());
  host.fill_(2.5);
  staging.to_device();
  EXPECT_TRUE(block.detach().equal(torch::full({3}, 2.5)));
  EXPECT_TRUE(block.is_leaf());
}

// The copy to the host includes the marked work, and later work waits for it.
TEST(Staging, OnADeviceCopiesTheMarkedWork) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const at::Tensor host = torch::zeros({1 << 20});
  const at::Tensor block = torch::ones({1 << 20}, at::kCUDA);
  for (int pass = 0; pass < 2; ++pass) {
    Staging staging(block, host);
    block.fill_(3 + pass);
    staging.mark();
    staging.to_host();
    EXPECT_TRUE(host.eq(3 + pass).all().item<bool>());
    host.add_(1);
    staging.to_device();
    staging.wait_on_device();
    EXPECT_TRUE(block.eq(4 + pass).all().item<bool>());
  }
}

}  // namespace
}  // namespace sheaf::parallel
