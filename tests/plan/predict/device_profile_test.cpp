#include "sheaf/plan/predict/device_profile.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/choose/planner.hpp"
#include "tests/plan/trace/model_trace.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

constexpr Precision kTraced[] = {Precision::kF32, Precision::kBf16,
                                 Precision::kInt8};

DeviceProfile fast_device() {
  DeviceProfile device;
  device.name = "GPU";
  device.tflops = {{Precision::kF32, 60},
                   {Precision::kBf16, 600},
                   {Precision::kF16, 600},
                   {Precision::kInt8, 1200}};
  device.memory_gbs = 4000;
  return device;
}
// Half as fast in f32, a quarter in 16 bits; without bf16 and int8.
DeviceProfile middle_device() {
  DeviceProfile device;
  device.name = "middle";
  device.tflops = {{Precision::kF32, 30}, {Precision::kF16, 150}};
  device.memory_gbs = 2000;
  return device;
}
DeviceProfile slow_device() {
  DeviceProfile device = middle_device();
  device.name = "slow";
  device.tflops = {{Precision::kF32, 10}, {Precision::kF16, 60}};
  device.memory_gbs = 500;
  return device;
}

std::vector<StepProfile> traced(double host_us = 2) {
  std::vector<StepProfile> list;
  for (const Precision one : kTraced)
    list.push_back(read_profile(
        ModelTrace(small_model(), uniform(one), true, host_us).write()));
  return list;
}

std::int64_t part_ns(const StepProfile& profile, std::int32_t slot,
                     std::int32_t cast = kNone) {
  std::int64_t sum = 0;
  for (const auto& thread : profile.step.threads)
    for (const ThreadMark& mark : thread) {
      if (mark.part == kNone || mark.kernel == kNone) continue;
      const Part& part = profile.parts[static_cast<std::size_t>(mark.part)];
      if (part.slot == slot && part.cast == cast)
        sum += profile.step.kernels[static_cast<std::size_t>(mark.kernel)].ns;
    }
  return sum;
}

double ratio(const StepProfile& a, const StepProfile& b, std::int32_t slot,
             std::int32_t cast = kNone) {
  return static_cast<double>(part_ns(a, slot, cast)) /
         static_cast<double>(part_ns(b, slot, cast));
}

Slot layer(const char* op, Shape out, double weights,
           std::vector<double> inputs) {
  Slot slot;
  slot.op = op;
  slot.layer = "one";
  slot.out_shape = std::move(out);
  slot.weight_elements = weights;
  for (const double elements : inputs) slot.inputs.push_back({0, elements});
  return slot;
}

TEST(DeviceProfile, CountsOperationsFromShapes) {
  // 64 channels of 3 x 3 x 16 for each of 8 x 10 x 10 positions.
  EXPECT_EQ(flops_of(layer("aten::conv2d", {8, 64, 10, 10}, 64 * 144, {})),
            2.0 * 8 * 100 * 64 * 144);
  EXPECT_EQ(flops_of(layer("aten::linear", {8, 5, 30}, 30 * 20, {800})),
            2.0 * 40 * 30 * 20);
  // [2, 3, 7, 11] x [2, 3, 11, 5], in either order.
  for (const auto& inputs : {std::vector<double>{462, 330}, {330, 462}})
    EXPECT_NEAR(flops_of(layer("aten::matmul", {2, 3, 7, 5}, 0, inputs)),
                2.0 * 6 * 7 * 11 * 5, 1e-6);
  Slot follows = layer("aten::relu", {8, 5}, 0, {40});
  follows.layer.clear();
  EXPECT_EQ(flops_of(follows), 0);
}

TEST(DeviceProfile, ScalesProductsByComputingAndTheRestByMemory) {
  auto traces = traced();
  StepProfile& low = traces[1];
  // fc: 2 * 1e5 * 1e4 operations with 4 MB are bound by compute.
  Slot& fc = low.graph.slots[5];
  fc.out_shape = {1000, 100};
  fc.weight_elements = 1e6;
  // conv1: 2e6 operations with 4 MB are bound by memory.
  low.graph.slots[0].out_shape = {1, 1000000};
  low.graph.slots[0].weight_elements = 1e6;
  DeviceProfile to = slow_device();
  to.tflops[Precision::kBf16] = 20;
  const StepProfile there = scale_profile(low, fast_device(), to);
  EXPECT_NEAR(ratio(there, low, 5), 30, 0.01);
  EXPECT_NEAR(ratio(there, low, 0), 8, 0.01);
  EXPECT_NEAR(ratio(there, low, 1), 8, 0.01);
  EXPECT_NEAR(ratio(there, low, 4, 0), 8, 0.01);  // a cast
  EXPECT_EQ(there.device_name, "slow");
  EXPECT_EQ(there.scaled_from, "GPU");
  EXPECT_EQ(there.memory.size(), low.memory.size());
}

// A product may include kernels that only move data.
TEST(DeviceProfile, KnowsProductsByTheirNames) {
  auto traces = traced();
  StepProfile& high = traces[0];
  high.graph.slots[5].out_shape = {1000, 100};
  high.graph.slots[5].weight_elements = 1e6;
  for (const auto& thread : high.step.threads)
    for (const ThreadMark& mark : thread) {
      if (mark.part == kNone || mark.kernel == kNone) continue;
      const Part& part = high.parts[static_cast<std::size_t>(mark.part)];
      // In forward no kernel is named as a product: all count as the product.
      high.step.kernels[static_cast<std::size_t>(mark.kernel)].is_product =
          part.slot == 5 && part.is_backward;
    }
  const StepProfile there = scale_profile(high, fast_device(), slow_device());
  EXPECT_NEAR(ratio(there, high, 5), 6, 0.01);
}

TEST(DeviceProfile, LaunchesGoByTheHost) {
  DeviceProfile from = fast_device(), to = middle_device();
  const StepProfile here = traced()[0];
  from.launch_us = 2;
  to.launch_us = 5;
  to.host_time = 3;
  const StepProfile there = scale_profile(here, from, to);
  for (std::size_t i = 0; i < here.step.threads[0].size(); ++i) {
    const ThreadMark& a = here.step.threads[0][i];
    const ThreadMark& b = there.step.threads[0][i];
    EXPECT_NEAR(static_cast<double>(b.cpu_ns),
                3 * static_cast<double>(a.cpu_ns), 1);
    const double calls = a.kernel != kNone ? 2.5 : 1;
    EXPECT_NEAR(static_cast<double>(b.call_ns),
                calls * static_cast<double>(a.call_ns), 1);
  }
  for (std::size_t i = 0; i < here.step.kernels.size(); ++i)
    EXPECT_NEAR(static_cast<double>(there.step.kernels[i].latency_ns),
                2.5 * static_cast<double>(here.step.kernels[i].latency_ns), 1);
}

TEST(DeviceProfile, PrecisionsThatADeviceDoesNotHaveAreLeftOut) {
  const auto list = traces_on(traced(), fast_device(), middle_device());
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].model.precision, Precision::kF32);
  // The trace in bf16 is used for f16.
  EXPECT_EQ(list[1].model.precision, Precision::kF16);
  EXPECT_TRUE(list[1].is_stand_in);
  EXPECT_EQ(list[1].graph.slots[0].type, Precision::kF16);
  DeviceProfile none = middle_device();
  none.tflops = {{Precision::kTf32, 100}};
  expect_throws<UsageError>([&] { traces_on(traced(), fast_device(), none); },
                            {"middle", "none of the precisions"});
  expect_throws<UsageError>(
      [&] { scale_profile(traced()[1], fast_device(), middle_device()); },
      {"bf16", "middle cannot compute"});
}

// A fast and a slow device, from traces of a third one.
TEST(DeviceProfile, PlansForMixedDevicesAreFastWithLowIndicator) {
  const auto traces = traced();
  const Recorded fast(traces_on(traces, fast_device(), middle_device()));
  const Recorded slow(traces_on(traces, fast_device(), slow_device()));
  Cluster cluster;
  cluster.kinds.push_back({&fast, casts_of(fast), 2, 1});
  cluster.kinds.push_back({&slow, casts_of(slow), 2, 1});
  cluster.placement = topo::placement_of(topo::Dims{{4}});
  PrecisionPlan high = uniform(Precision::kF32);
  PlannerOptions options;
  options.memory_limit = 95 * mix_memory(slow, high).peak() / 100;
  const ChosenPlan chosen = choose_plan(cluster, options);
  ASSERT_EQ(chosen.uniform.size(), 2u);
  const UniformStep& low = chosen.uniform[1];
  EXPECT_EQ(low.precision, Precision::kF16);
  EXPECT_FALSE(chosen.uniform[0].fits);
  EXPECT_LE(chosen.step.ns, low.step.ns);
  EXPECT_LT(chosen.indicator, low.indicator);
  for (std::size_t kind = 0; kind < 2; ++kind) {
    EXPECT_LE(chosen.step.memory[kind].peak(), options.memory_limit);
    for (const auto& [name, precision] : chosen.plans[kind].layers)
      EXPECT_TRUE(middle_device().can(precision)) << name;
  }
}

}  // namespace
}  // namespace sheaf::plan
