#include "sheaf/halo/halo_plan.hpp"

#include <gtest/gtest.h>

#include <random>

#include "sheaf/halo/window.hpp"
#include "tests/halo/random_case.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::halo {
namespace {

std::vector<HaloPlan> plans_of(const Tiling& tiling,
                               const std::vector<Box>& needs) {
  std::vector<HaloPlan> plans;
  for (int rank = 0; rank < tiling.ranks(); ++rank)
    plans.push_back(make_plan(tiling, needs, rank));
  return plans;
}

// How many times each position of the wanted box is delivered.
std::vector<int> times_brought(const HaloPlan& plan) {
  std::vector<int> times(static_cast<std::size_t>(plan.wanted.volume()), 0);
  const auto mark = [&](const Box& part) {
    const Box box = relative_to(part, plan.wanted);
    for (std::int64_t i = box[0].begin; i < box[0].end; ++i)
      for (std::int64_t j = box[1].begin; j < box[1].end; ++j)
        for (std::int64_t k = box[2].begin; k < box[2].end; ++k)
          ++times[static_cast<std::size_t>(
              (i * plan.wanted[1].size() + j) * plan.wanted[2].size() + k)];
  };
  mark(plan.local);
  for (const HaloMessage& message : plan.receives) mark(message.box);
  return times;
}

void check_plans(const Tiling& tiling, const std::vector<Box>& needs) {
  const auto plans = plans_of(tiling, needs);
  std::size_t sends = 0;
  std::size_t receives = 0;
  for (const HaloPlan& plan : plans) {
    const auto times = times_brought(plan);
    ASSERT_EQ(std::count(times.begin(), times.end(), 1),
              static_cast<std::ptrdiff_t>(times.size()));
    ASSERT_EQ(plan.received_volume(),
              plan.wanted.volume() - plan.local.volume());
    sends += plan.sends.size();
    receives += plan.receives.size();
    for (const HaloMessage& message : plan.sends) {
      ASSERT_NE(message.peer, plan.rank);
      ASSERT_TRUE(plan.tile.contains(message.box));
      const auto& theirs =
          plans[static_cast<std::size_t>(message.peer)].receives;
      ASSERT_EQ(std::count(theirs.begin(), theirs.end(),
                           HaloMessage{plan.rank, message.box}),
                1);
    }
    ASSERT_TRUE(std::is_sorted(
        plan.receives.begin(), plan.receives.end(),
        [](const auto& a, const auto& b) { return a.peer < b.peer; }));
  }
  ASSERT_EQ(sends, receives);
}

TEST(HaloPlanTest, BringsEachPositionOnceFromItsOwner) {
  std::mt19937 random(2);
  for (const char* grid : {"1", "2", "5", "16", "1x2", "2x2", "3x3", "4x4",
                           "2x3", "2x2x2", "1x3x2", "2x2x4"})
    for (int i = 0; i < 200; ++i) {
      const Tiling tiling = random_tiling(random, Grid::parse(grid), 1, 12);
      check_plans(tiling, random_needs(random, tiling));
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << grid << " case " << i;
    }
}

std::vector<Box> needs_of(const Tiling& tiling, const Window& window) {
  std::vector<Cuts> outputs;
  for (int axis = 0; axis < tiling.axes(); ++axis)
    outputs.push_back(
        Cuts::balanced(output_size(window, tiling.cuts(axis).size()),
                       tiling.grid().size(axis)));
  std::vector<Box> needs;
  for (int rank = 0; rank < tiling.ranks(); ++rank) {
    const Coordinates at = tiling.grid().coordinates(rank);
    Box box;
    for (int axis = 0; axis < tiling.axes(); ++axis) {
      const auto index = static_cast<std::size_t>(axis);
      box[axis] = clamp(needed(window, outputs[index][at[index]]),
                        tiling.cuts(axis).size())
                      .inside;
    }
    needs.push_back(box);
  }
  return needs;
}

// The width of each rank's halo on the low side; negative: the part of its tile
// that it does not need.
std::vector<std::int64_t> low_halos(const Tiling& tiling,
                                    const std::vector<Box>& needs) {
  std::vector<std::int64_t> halos;
  for (int rank = 0; rank < tiling.ranks(); ++rank)
    halos.push_back(tiling.box_of(rank)[0].begin -
                    needs[static_cast<std::size_t>(rank)][0].begin);
  return halos;
}

TEST(HaloPlanTest, CropsWhatAnotherRankNeeds) {
  const Tiling tiling = Tiling::balanced(Grid::parse("5"), {55});
  const auto needs = needs_of(tiling, {.kernel = 3, .stride = 2});
  EXPECT_EQ(low_halos(tiling, needs),
            (std::vector<std::int64_t>{0, -1, -2, -1, 0}));
  check_plans(tiling, needs);
}

TEST(HaloPlanTest, GivesOverlappingStridesAllTheirOutputs) {
  const Window window{.kernel = 5, .stride = 2};
  const Tiling tiling = Tiling::balanced(Grid::parse("2"), {28});
  EXPECT_EQ(output_size(window, 28), 12);  // six on each rank
  const auto needs = needs_of(tiling, window);
  EXPECT_EQ(needs[0][0], (Interval{0, 15}));
  EXPECT_EQ(needs[1][0], (Interval{12, 27}));
  const auto plans = plans_of(tiling, needs);
  ASSERT_EQ(plans[0].receives.size(), 1u);
  EXPECT_EQ(plans[0].receives[0].box[0], (Interval{14, 15}));
  EXPECT_EQ(plans[1].receives[0].box[0], (Interval{12, 14}));
}

TEST(HaloPlanTest, ReachesBeyondTheNearestNeighbor) {
  const Tiling tiling = Tiling::balanced(Grid::parse("16"), {16});
  const Window window{.kernel = 7, .pad_low = 3, .pad_high = 3};
  const auto plan = make_plan(tiling, needs_of(tiling, window), 8);
  ASSERT_EQ(plan.receives.size(), 6u);
  EXPECT_EQ(plan.receives.front().peer, 5);
  EXPECT_EQ(plan.receives.back().peer, 11);
}

TEST(HaloPlanTest, BytesAreThoseOfTheFormula) {
  const Tiling tiling = Tiling::balanced(Grid::parse("2x2"), {28, 28});
  const auto plan =
      make_plan(tiling, needs_of(tiling, {.kernel = 5}), /*rank=*/0);
  // 12 balanced outputs per axis: two columns, two rows and a corner.
  EXPECT_EQ(plan.received_volume(), 2 * 14 + 14 * 2 + 2 * 2);
  EXPECT_EQ(plan.receives.size(), 3u);
  EXPECT_EQ(plan.sent_volume(), 2 * 14 + 14 * 2 + 2 * 2);
}

TEST(HaloPlanTest, RefusesNeedsOutsideOfTheImage) {
  const Tiling tiling = Tiling::balanced(Grid::parse("2"), {8});
  std::vector<Box> needs(2, tiling.whole());
  needs[1][0] = {-1, 4};
  expect_throws<UsageError>([&] { make_plan(tiling, needs, 0); },
                            {"rank 1", "[-1, 4)", "clamp"});
  needs.pop_back();
  expect_throws<UsageError>([&] { make_plan(tiling, needs, 0); },
                            {"2 ranks", "for 1"});
}

}  // namespace
}  // namespace sheaf::halo
