#include "sheaf/parallel/precision/precision_device.hpp"

#include <ATen/Context.h>
#include <ATen/SequenceNumber.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/parallel/precision/precision_cuda.hpp"
#include "tests/parallel/precision/precision_networks.hpp"
#include "tests/support/environment.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

class PrecisionDeviceOnCuda : public PrecisionOnCuda {};

TEST(PrecisionDevice, ACpuHasTwoPrecisions) {
  const at::Device cpu(at::kCPU);
  EXPECT_EQ(why_not(Precision::kF32, cpu), "");
  EXPECT_EQ(why_not(Precision::kBf16, cpu), "");
  for (const Precision other :
       {Precision::kTf32, Precision::kF16, Precision::kInt8})
    EXPECT_EQ(why_not(other, cpu),
              "a CPU computes layers in f32 and bf16; tf32, f16 and int8 need "
              "a CUDA device");
}

TEST(PrecisionDevice, ACudaDeviceHasAllExceptMaybeInt8) {
  const at::Device device(at::kCUDA, 0);
  for (const Precision one :
       {Precision::kF32, Precision::kTf32, Precision::kBf16, Precision::kF16})
    EXPECT_EQ(why_not(one, device), "");
  if (!cast_kernels::are_built())
    EXPECT_EQ(why_not(Precision::kInt8, device),
              "Sheaf was built without its CUDA kernels, which int8 needs; "
              "build it with nvcc, or use f16");
}

TEST(PrecisionDevice, OtherDevicesHaveNone) {
  EXPECT_EQ(why_not(Precision::kF32, at::Device(at::kMeta)),
            "layers on meta are not supported; use a CPU or a CUDA device");
}

TEST(PrecisionDevice, ASettingOfTheUserIsKept) {
  const sheaf::test::ScopedVariable user("DNNL_MAX_CPU_ISA", "AVX2");
  avoid_broken_kernels();
  EXPECT_STREQ(std::getenv("DNNL_MAX_CPU_ISA"), "AVX2");
}

bool has_tf32() {
  EXPECT_EQ(at::globalContext().allowTF32CuBLAS(),
            at::globalContext().allowTF32CuDNN());
  return at::globalContext().allowTF32CuBLAS();
}

TEST(PrecisionDevice, FlagsAreRestored) {
  const Tf32Flags outside(false);
  {
    const Tf32Flags on(true);
    EXPECT_TRUE(has_tf32());
    {
      const Tf32Flags off(false);
      EXPECT_FALSE(has_tf32());
    }
    EXPECT_TRUE(has_tf32());
  }
  EXPECT_FALSE(has_tf32());
}

// Convolutions and matrices have separate settings.
TEST(PrecisionDevice, FlagsAreRestoredSeparately) {
  const Tf32Flags outside(false);
  at::globalContext().setAllowTF32CuDNN(true);
  { const Tf32Flags off(false); }
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
}

// Records in backward() whether tf32 is allowed.
struct RecordsTf32 : torch::autograd::Function<RecordsTf32> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/,
                            const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* /*context*/,
      torch::autograd::variable_list gradients) {
    seen.push_back(has_tf32());
    return gradients;
  }
  static thread_local std::vector<bool> seen;
};
thread_local std::vector<bool> RecordsTf32::seen;

// The nodes of the layer, but not those before it.
TEST(PrecisionDevice, FlagsAreSetInTheBackwardOfALayer) {
  const Tf32Flags outside(false);
  const at::Tensor x = torch::ones({2}).set_requires_grad(true);
  const at::Tensor before = RecordsTf32::apply(x);
  const auto first = at::sequence_number::peek();
  const at::Tensor inner = RecordsTf32::apply(before);
  const at::Tensor output = RecordsTf32::apply(inner) + inner;
  use_tf32_in_backward(output, first, /*is_on=*/true);
  const at::Tensor after = RecordsTf32::apply(output);
  for (int pass = 0; pass < 2; ++pass) {
    RecordsTf32::seen.clear();
    after.sum().backward({}, /*retain_graph=*/true);
    EXPECT_EQ(RecordsTf32::seen, (std::vector<bool>{false, true, true, false}));
    EXPECT_FALSE(has_tf32());
  }
}

// The same bits as with libtorch's own setting, forward and backward.
TEST_F(PrecisionDeviceOnCuda, Tf32IsOfSingleLayersInBackwardToo) {
  const Tf32Flags outside(false);
  torch::nn::Sequential net(torch::nn::Linear(256, 256),
                            torch::nn::Linear(256, 256));
  net->to(at::kCUDA);
  const at::Tensor x = torch::randn({512, 256}, at::kCUDA);
  const auto gradients = [&](const PrecisionPlan& plan) {
    return results_under(net, plan, x);
  };
  const auto f32 = gradients(all_in(Precision::kF32));
  {
    const Tf32Flags on(true);  // f32 layers use f32, whatever the setting is
    const auto again = gradients(all_in(Precision::kF32));
    EXPECT_TRUE(has_same_bits(f32, again));
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
    EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
  }
  const auto tf32 = gradients(all_in(Precision::kTf32));
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  {
    const Tf32Flags on(true);
    const auto by_torch = results_of(net, [&] { return net->forward(x); });
    EXPECT_TRUE(has_same_bits(tf32, by_torch));
  }
  EXPECT_FALSE(f32[0].equal(tf32[0]));
  // Only the last layer: the output of the first one is unchanged, gradients
  // are not.
  const auto last = gradients({{{"1", Precision::kTf32}}});
  const at::Tensor delta = (f32[0] - last[0]).abs().max();
  EXPECT_GT(delta.item<double>(), 0);
  EXPECT_FALSE(last[3].equal(f32[3]));
}

}  // namespace
}  // namespace sheaf::parallel
