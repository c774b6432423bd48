#include "sheaf/plan/predict/mixed_step.hpp"

#include <gtest/gtest.h>

#include "sheaf/plan/graph/step_replay.hpp"
#include "tests/plan/predict/recorded_models.hpp"

namespace sheaf::plan {
namespace {

double replayed(const StepGraph& graph) {
  Replay replay;
  replay.run(graph);
  return 1e-3 * static_cast<double>(replay.run(graph));
}

// Every plan of three layers and three precisions: the predicted step and
// memory equal the actual ones.
TEST(MixedStep, PredictsPlansThatWereNeverTraced) {
  // Bound by the device or by threads.
  for (const double host_us : {10.0, 400.0}) {
    const Recorded recorded =
        record(small_model(),
               {Precision::kF32, Precision::kBf16, Precision::kF16}, host_us);
    const CastCosts casts = casts_of(recorded);
    for (const Precision a : recorded.precisions())
      for (const Precision b : recorded.precisions())
        for (const Precision c : recorded.precisions()) {
          const auto plan = plan_of({{"conv1", a}, {"conv2", b}, {"fc", c}});
          const ModelTrace truth(small_model(), plan, false, host_us);
          const double predicted = replayed(mix_step(recorded, plan, casts));
          EXPECT_NEAR(predicted / truth.step_us(), 1, 0.03)
              << to_string(a) << " " << to_string(b) << " " << to_string(c)
              << " " << host_us;
          EXPECT_EQ(mix_memory(recorded, plan).peak(), truth.peak_bytes())
              << to_string(a) << " " << to_string(b) << " " << to_string(c);
        }
  }
}

}  // namespace
}  // namespace sheaf::plan
