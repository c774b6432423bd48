#include "sheaf/parallel/dad/parcel_schedule.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sheaf::parallel {
namespace {

using ParcelNumbers = std::vector<std::size_t>;

// Weights 0, 1 and 2: inputs in two parcels, deltas in three.
FactorPlan three_weights() {
  FactorPlan plan;
  plan.routes = {Route::kDad, Route::kDad, Route::kDad};
  plan.is_bias = {false, false, false};
  plan.calls = {1, 1, 1};
  plan.forward = {{0, 1}, {2}};
  plan.backward = {{2}, {1}, {0}};
  return plan;
}

class ParcelScheduleTest : public testing::Test {
 protected:
  ParcelNumbers take_forward(bool all) {
    ParcelNumbers list;
    while (const auto next = schedule.next_forward(all, is_complete)) {
      EXPECT_FALSE(next->is_backward);
      EXPECT_FALSE(next->is_last);
      EXPECT_EQ(next->weights, plan.forward[next->number]);
      list.push_back(static_cast<std::size_t>(schedule.place_of(*next)));
      schedule.advance(*next);
    }
    return list;
  }
  ParcelNumbers take_backward(bool all) {
    ParcelNumbers list;
    while (const auto next = schedule.next_backward(all, is_complete)) {
      EXPECT_TRUE(next->is_backward);
      EXPECT_EQ(next->is_last, next->number == 2);
      EXPECT_EQ(next->weights, plan.backward[next->number]);
      list.push_back(static_cast<std::size_t>(schedule.place_of(*next)));
      schedule.advance(*next);
    }
    return list;
  }

  const FactorPlan plan = three_weights();
  ParcelSchedule schedule{plan};
  std::set<std::size_t> complete;
  const ParcelSchedule::IsComplete is_complete = [this](std::size_t weight) {
    return complete.contains(weight);
  };
};

TEST_F(ParcelScheduleTest, ParcelsWaitForThoseBeforeThem) {
  complete = {0, 2};
  EXPECT_EQ(take_forward(false), ParcelNumbers{});  // weight 1 is missing
  complete = {0, 1, 2};
  EXPECT_EQ(take_forward(false), (ParcelNumbers{0, 1}));
  EXPECT_EQ(take_forward(true), ParcelNumbers{});
  complete = {0, 1};
  EXPECT_EQ(take_backward(false), ParcelNumbers{});
  complete = {2};
  EXPECT_EQ(take_backward(false), (ParcelNumbers{2}));
}

TEST_F(ParcelScheduleTest, TheLastParcelWaitsForTheEnd) {
  complete = {0, 1, 2};
  EXPECT_EQ(take_backward(false), (ParcelNumbers{2, 3}));
  EXPECT_EQ(take_backward(true), (ParcelNumbers{4}));
}

TEST_F(ParcelScheduleTest, AllParcelsAreSentAtTheEndAndInTheNextPass) {
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(take_forward(true), (ParcelNumbers{0, 1}));
    EXPECT_EQ(take_backward(true), (ParcelNumbers{2, 3, 4}));
    schedule.restart();
  }
}

TEST_F(ParcelScheduleTest, KnowsWhatIsPacked) {
  EXPECT_FALSE(schedule.is_packed(2));
  complete = {2};
  take_backward(false);
  EXPECT_TRUE(schedule.is_packed(2));
  EXPECT_FALSE(schedule.is_packed(1));
  EXPECT_TRUE(schedule.is_packed_with_or_after(0, 2));
  EXPECT_TRUE(schedule.is_packed_with_or_after(1, 1));
  EXPECT_FALSE(schedule.is_packed_with_or_after(2, 1));
  EXPECT_EQ(schedule.jobs_until(0), 3u);
  EXPECT_EQ(schedule.jobs_until(2), 5u);
}

// A parcel that could not be packed stays the next one.
TEST_F(ParcelScheduleTest, AdvancesOnlyIfToldTo) {
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_EQ(schedule.next_forward(true, is_complete)->number, 0u);
}

}  // namespace
}  // namespace sheaf::parallel
