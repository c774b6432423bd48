#include <gtest/gtest.h>

#include "tests/comm/choice/choices.hpp"

namespace sheaf::comm {
namespace {

TEST(ChoiceTiers, BoundsAreThoseOfTheTiers) {
  topo::Machine machine;
  machine.network.bandwidth_gbs = 1;
  machine.shm_memory_gbs = 10;
  const HostMap host_map = make_host_map({"a", "a", "b", "b", "c", "c"}, 0);
  Choice choice;
  choice.plan.lanes = 2;
  choice.plan.outer_dims = {3};
  choice.plan.segment_bytes = 1 << 20;
  choice.plan.tier_algorithms = {TierAlgorithm::kHalving};
  EXPECT_EQ(text_of(choice, host_map), "lanes=2 tiers=halving:3 segment=1M");
  const auto tiers = tiers_of(choice, host_map, machine);
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_DOUBLE_EQ(tiers[0].bound_us_per_byte, 2.0 * 2 / 1e4);  // 2pS/M
  EXPECT_DOUBLE_EQ(tiers[1].bound_us_per_byte, 2.0 * 2 / 3 / 1e3);
  EXPECT_DOUBLE_EQ(bound_us_per_byte(host_map, machine), 2.0 * 2 / 3 / 1e3);

  choice.plan.is_flat = true;
  choice.plan.outer_dims = {2, 3};
  choice.plan.tier_algorithms.assign(2, TierAlgorithm::kRing);
  const auto flat = tiers_of(choice, host_map, machine);
  ASSERT_EQ(flat.size(), 2u);
  EXPECT_DOUBLE_EQ(flat[0].bound_us_per_byte,
                   2.0 * 1 / 2 / (1e3 * machine.shm.bandwidth_gbs));
  EXPECT_DOUBLE_EQ(flat[1].bound_us_per_byte, 2.0 * 2 / 3 / 1e3);
}

}  // namespace
}  // namespace sheaf::comm
