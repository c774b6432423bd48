#include <gtest/gtest.h>

#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/predict/batch_scaling.hpp"
#include "sheaf/plan/predict/cluster.hpp"
#include "tests/plan/trace/model_trace.hpp"

namespace sheaf::plan {
namespace {

constexpr double kLoaderUs = 2600;  // f32 takes longer than this, bf16 less

StepProfile profile_in(Precision precision, double loader_us) {
  return read_profile(ModelTrace(small_model(), uniform(precision), true,
                                 /*host_us=*/2, /*batch=*/8, loader_us)
                          .write());
}
Recorded recorded_with(double loader_us) {
  std::vector<StepProfile> profiles;
  profiles.push_back(profile_in(Precision::kF32, loader_us));
  profiles.push_back(profile_in(Precision::kBf16, loader_us));
  return Recorded(std::move(profiles));
}
Cluster cluster_with(const Recorded& recorded, int workers = 1) {
  Cluster cluster;
  cluster.kinds.push_back({&recorded, casts_of(recorded), workers, 1});
  cluster.placement = topo::placement_of(topo::Dims{{workers}});
  return cluster;
}
double step_us_in(const Cluster& cluster, Precision precision) {
  return 1e-3 *
         static_cast<double>(predict_step(cluster, {uniform(precision)}).ns);
}

TEST(DataWait, IsFoundWhereThereIsOne) {
  EXPECT_EQ(profile_in(Precision::kF32, kLoaderUs).step.loader_ns, 0);
  const StepProfile low = profile_in(Precision::kBf16, kLoaderUs);
  EXPECT_NEAR(1e-3 * static_cast<double>(low.step.loader_ns), kLoaderUs,
              0.01 * kLoaderUs);
  EXPECT_EQ(profile_in(Precision::kBf16, 0).step.loader_ns, 0);
}

// One step of 1000 us, of which the thread waits 300 us for data: 400 us in the
// phase, less an operator of 100 us.
Trace waiting_trace() {
  Trace trace;
  trace.names.number_of("");
  StepTrace step;
  step.span = {0, 1'000'000};
  step.scopes = {{{0, 400'000}, trace.names.number_of("sheaf::phase data"), 0}};
  step.operators = {{{100'000, 200'000}, 0, 0, -1},
                    {{300'000, 350'000}, 0, /*thread=*/1, -1}};
  trace.steps = {step};
  return trace;
}

StepProfile with_first_stretch(std::int32_t part) {
  StepProfile profile;
  profile.model.loader_workers = 1;
  profile.step.threads = {{{.cpu_ns = 200'000}, {.cpu_ns = 500'000}}};
  profile.stretches = {{.part = part, .thread = 0, .first = 0, .count = 2}};
  return profile;
}

TEST(DataWait, IsTakenOutOfTheFirstMarks) {
  const Trace trace = waiting_trace();
  EXPECT_EQ(data_wait_ns(trace.steps[0], trace.names), 300'000);
  StepProfile profile = with_first_stretch(kNone);
  take_out_data_wait(profile, trace);
  EXPECT_EQ(profile.step.loader_ns, 1'000'000);
  EXPECT_EQ(profile.step.threads[0][0].cpu_ns, 0);
  EXPECT_EQ(profile.step.threads[0][1].cpu_ns, 400'000);
}

TEST(DataWait, IsNotTakenOutOfTheModel) {
  StepProfile profile = with_first_stretch(0);
  take_out_data_wait(profile, waiting_trace());
  EXPECT_EQ(profile.step.loader_ns, 1'000'000);
  EXPECT_EQ(profile.step.threads[0][0].cpu_ns, 200'000);
  profile = with_first_stretch(kNone);
  profile.model.loader_workers = 0;  // the thread loads by itself
  take_out_data_wait(profile, waiting_trace());
  EXPECT_EQ(profile.step.loader_ns, 0);
  EXPECT_EQ(profile.step.threads[0][0].cpu_ns, 200'000);
}

TEST(DataWait, ALinkToALoaderIsRemovedInsteadOfTime) {
  StepProfile profile = with_first_stretch(kNone);
  profile.step.threads[0][1].other_thread = 1;
  take_out_data_wait(profile, waiting_trace());
  EXPECT_EQ(profile.step.threads[0][1].other_thread, kNone);
  EXPECT_EQ(profile.step.threads[0][0].cpu_ns, 200'000);
  EXPECT_EQ(profile.step.threads[0][1].cpu_ns, 500'000);
}

TEST(DataWait, AFasterStepWaitsLonger) {
  const Recorded with = recorded_with(kLoaderUs), without = recorded_with(0);
  Cluster cluster = cluster_with(with), free = cluster_with(without);
  ASSERT_LT(step_us_in(free, Precision::kBf16), 0.8 * kLoaderUs);
  EXPECT_NEAR(step_us_in(cluster, Precision::kBf16), kLoaderUs,
              0.01 * kLoaderUs);
  EXPECT_NEAR(step_us_in(cluster, Precision::kF32),
              step_us_in(free, Precision::kF32), 20);
  // Twice as fast, the step waits for the same batch; at a tenth it does not.
  cluster.kinds[0].change = free.kinds[0].change = {.compute = 2, .memory = 2};
  EXPECT_NEAR(step_us_in(cluster, Precision::kBf16), kLoaderUs,
              0.01 * kLoaderUs);
  cluster.kinds[0].change =
      free.kinds[0].change = {.compute = 0.1, .memory = 0.1};
  EXPECT_NEAR(step_us_in(cluster, Precision::kBf16),
              step_us_in(free, Precision::kBf16), 40);
}

// Waiting overlaps with the exchange and is not added to it.
TEST(DataWait, ExchangesHappenMeanwhile) {
  const Recorded with = recorded_with(kLoaderUs), without = recorded_with(0);
  const double alone = step_us_in(cluster_with(without, 4), Precision::kBf16);
  EXPECT_NEAR(step_us_in(cluster_with(with, 4), Precision::kBf16),
              std::max(alone, kLoaderUs), 0.02 * kLoaderUs);
}

TEST(DataWait, IsInTheTimeline) {
  const Recorded recorded = recorded_with(kLoaderUs);
  const Cluster cluster = cluster_with(recorded);
  const std::vector<PrecisionPlan> plans{uniform(Precision::kBf16)};
  std::int64_t sum = 0;
  for (const PathPiece& one : predict_timeline(cluster, plans).path)
    sum += one.span.ns();
  EXPECT_EQ(sum, predict_step(cluster, plans).ns);
}

TEST(DataWait, BatchesTakeLongerWithMoreSamples) {
  const StepProfile low = profile_in(Precision::kBf16, kLoaderUs);
  EXPECT_NEAR(static_cast<double>(at_batch(low, 16).step.loader_ns),
              2 * static_cast<double>(low.step.loader_ns), 2);
}

TEST(DataWait, AThreadThatMakesBatchesItselfDoesNotWait) {
  const ModelTrace trace(small_model(), uniform(Precision::kBf16), true, 2, 8,
                         kLoaderUs);
  const Trace steps = read_steps(trace.write());
  StepProfile profile = make_profile(steps, 0, "trace.json");
  profile.model.loader_workers = 0;
  take_out_data_wait(profile, steps);
  EXPECT_EQ(profile.step.loader_ns, 0);
}

}  // namespace
}  // namespace sheaf::plan
