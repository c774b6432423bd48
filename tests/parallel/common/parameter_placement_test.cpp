// Ranks of a group on mixed devices.
#include "sheaf/parallel/common/parameter_placement.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/parallel/common/staged_training.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;
using test::train_staged;

TEST(Homes, AreOneWhereAllRanksHaveParametersTogether) {
  // Two ranks, four parameters: on the first rank, all but one are on a GPU.
  const std::vector<PlacementCode> codes{1, 1, 2, 0,  //
                                         0, 0, 0, 0};
  const auto homes = placements_of(codes, 2);
  ASSERT_EQ(homes.size(), 4u);
  EXPECT_EQ(homes[0], homes[1]);
  EXPECT_NE(homes[1].number, homes[2].number);
  EXPECT_NE(homes[2].number, homes[3].number);
  EXPECT_FALSE(homes[0].is_host || homes[0].is_device);
  EXPECT_TRUE(homes[3].is_host);
  EXPECT_TRUE(placements_of({1, 3}, 2)[0].is_device);
}

TEST(Homes, AllRanksGetTheSame) {
  run_threads(3, [](const Group& group) {
    const auto mine = static_cast<PlacementCode>(group.rank());
    const auto homes = agree_on_placements(group, {0, mine, mine, 1});
    EXPECT_EQ(homes, placements_of({0, 0, 0, 1, 0, 1, 1, 1, 0, 2, 2, 1}, 3));
    EXPECT_TRUE(homes[0].is_host);
    EXPECT_EQ(homes[1], homes[2]);
    EXPECT_TRUE(homes[3].is_device);
  });
}

TEST(ParameterPlacement, MixedDevicesAreReported) {
  run_threads(2, [](const Group& group) {
    const auto device = group.rank() == 0 ? at::kMeta : at::kCPU;
    expect_throws<UsageError>(
        [&] {
          check_same_placement(group, {at::empty({2}, device)}, "DadParallel");
        },
        {"DadParallel needs the module on the same kind", "DataParallel"});
    check_same_placement(group, {at::empty({2})}, "DadParallel");
  });
}

TEST(MixedDevices, RanksThatStageAndRanksThatDoNotAgree) {
  run_threads(3, [](const Group& group) {
    for (const Overlap overlap : {Overlap::kOn, Overlap::kOff}) {
      const bool is_first = group.rank() == 0;
      // The large gradient has a separate bucket, so that ranks on the CPU need
      // not copy it.
      train_staged(group, is_first, {.overlap = overlap}, 2);
      train_staged(group, !is_first, {.overlap = overlap}, 2);
      train_staged(group, false, {.overlap = overlap}, 2);
      // If all ranks use devices, a separate bucket has no benefit.
      train_staged(group, true, {.overlap = overlap}, 1);
    }
  });
}

TEST(MixedDevices, CompressedExchangesAgreeToo) {
  run_threads(3, [](const Group& group) {
    for (const auto type : {at::kHalf, at::kBFloat16})
      train_staged(group, group.rank() == 1,
                   {.exchange = make_half_exchange(type)}, 1);
  });
}

}  // namespace
}  // namespace sheaf::parallel
