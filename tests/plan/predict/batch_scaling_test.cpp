#include "sheaf/plan/predict/batch_scaling.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/graph/step_replay.hpp"
#include "sheaf/plan/predict/mixed_step.hpp"
#include "tests/plan/trace/model_trace.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

// Operators take 50 us plus a time per sample.
ModelTrace trace_of(int batch, Precision precision = Precision::kF32) {
  auto model = small_model();
  for (ModelOperator& one : model) {
    one.us = 50 + one.us * batch / 8;
    one.elements = one.elements * batch / 8;
  }
  return ModelTrace(model, uniform(precision), true, /*host_us=*/2, batch);
}
StepProfile profile_of(int batch, Precision precision = Precision::kF32) {
  return read_profile(trace_of(batch, precision).write());
}

double step_us_of(const std::vector<StepProfile>& traces,
                  Precision precision = Precision::kF32) {
  const Recorded recorded(traces);
  const StepGraph graph =
      mix_step(recorded, uniform(precision), casts_of(recorded));
  Replay replay;
  replay.run(graph);
  return 1e-3 * static_cast<double>(replay.run(graph));
}
std::int64_t peak_of(const std::vector<StepProfile>& traces) {
  return mix_memory(Recorded(traces), uniform(traces[0].model.precision))
      .peak();
}

TEST(OtherBatch, IsALineThroughTwoTraces) {
  for (const Precision precision : {Precision::kF32, Precision::kBf16})
    for (const int batch : {4, 12, 64}) {
      const ModelTrace truth = trace_of(batch, precision);
      const auto traces = all_at_batch(
          {profile_of(8, precision), profile_of(16, precision)}, batch);
      ASSERT_EQ(traces.size(), 1u);
      EXPECT_EQ(traces[0].model.batch, batch);
      EXPECT_NEAR(step_us_of(traces, precision) / truth.step_us(), 1, 0.01)
          << batch;
      EXPECT_NEAR(static_cast<double>(peak_of(traces)),
                  static_cast<double>(truth.peak_bytes()), 16 * 512)
          << batch;
    }
}

// The rule also doubles the part that does not depend on the batch.
TEST(OtherBatch, IsInProportionByOneTrace) {
  const auto traces = all_at_batch({profile_of(8)}, 16);
  const double once = step_us_of({profile_of(8)});
  EXPECT_NEAR(step_us_of(traces) / once, 2, 0.03);
  EXPECT_GT(step_us_of(traces), 1.1 * trace_of(16).step_us());
  EXPECT_NEAR(static_cast<double>(peak_of(traces)),
              static_cast<double>(trace_of(16).peak_bytes()), 16 * 512);
  EXPECT_EQ(traces[0].graph.slots[1].inputs[0].elements, 2e6);
}

TEST(OtherBatch, CastsGoWithTheBatch) {
  const auto traces = all_at_batch(
      {profile_of(8), profile_of(16), profile_of(8, Precision::kBf16),
       profile_of(16, Precision::kBf16)},
      32);
  ASSERT_EQ(traces.size(), 2u);
  PrecisionPlan plan;
  plan.layers["conv2"] = Precision::kBf16;
  const Recorded recorded(traces);
  const StepGraph graph = mix_step(recorded, plan, casts_of(recorded));
  Replay replay;
  replay.run(graph);
  auto model = small_model();
  for (ModelOperator& one : model) {
    one.us = 50 + one.us * 4;
    one.elements *= 4;
  }
  const ModelTrace truth(model, plan, false, 2, 32);
  EXPECT_NEAR(1e-3 * static_cast<double>(replay.run(graph)) / truth.step_us(),
              1, 0.02);
}

TEST(OtherBatch, OfMoreTracesTheNearestAreTaken) {
  // The trace with batch 1 is not used for 24.
  const auto traces =
      all_at_batch({profile_of(1), profile_of(8), profile_of(16)}, 24);
  EXPECT_NEAR(step_us_of(traces) / trace_of(24).step_us(), 1, 0.01);
}

TEST(OtherBatch, NeedsDifferentBatchSizesOfOneModel) {
  expect_throws<UsageError>([] { at_batch(profile_of(8), profile_of(8), 16); },
                            {"same batch", "two different batch sizes"});
  StepProfile unknown = profile_of(8);
  unknown.model.batch = 0;
  expect_throws<UsageError>([&] { at_batch(unknown, 16); },
                            {"does not record its batch size"});
}

}  // namespace
}  // namespace sheaf::plan
