#include <gtest/gtest.h>

#include "sheaf/train/setup/optimizer.hpp"

namespace sheaf::train {
namespace {

Schedule make(const std::string& text, std::int64_t steps_per_epoch) {
  return {parse_config("epochs: 4\noptimizer: {learning_rate: 2}\n" + text,
                       "a.yaml"),
          steps_per_epoch};
}

TEST(Schedule, ConstantIsTheRate) {
  const Schedule schedule = make("", 10);
  for (const int step : {0, 1, 39, 1000}) EXPECT_EQ(schedule.rate(step), 2);
}

TEST(Schedule, StepDropsAfterEachPeriod) {
  const Schedule schedule =
      make("schedule: {name: step, every: 1.5, factor: 0.5}", 10);
  EXPECT_EQ(schedule.rate(14), 2);
  EXPECT_EQ(schedule.rate(15), 1);
  EXPECT_EQ(schedule.rate(29), 1);
  EXPECT_EQ(schedule.rate(30), 0.5);
}

TEST(Schedule, CosineIsHalfAWave) {
  const Schedule schedule =
      make("schedule: {name: cosine, final_factor: 0.1}", 10);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 2);
  EXPECT_NEAR(schedule.rate(20), 1.1, 1e-15);
  EXPECT_DOUBLE_EQ(schedule.rate(40), 0.2);
  EXPECT_DOUBLE_EQ(schedule.rate(400), 0.2);
}

TEST(Schedule, WarmUpRisesToTheRate) {
  const Schedule schedule = make(
      "schedule: {name: cosine, warmup_epochs: 1, warmup_factor: 0.5}", 10);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 1.1);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 1.5);
  EXPECT_DOUBLE_EQ(schedule.rate(9), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(10), 2);  // the cosine begins
  EXPECT_DOUBLE_EQ(schedule.rate(25), 1);
}

}  // namespace
}  // namespace sheaf::train
