#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/dad/dad_plan.hpp"

namespace sheaf::parallel {
namespace {

// All ranks must choose the same routes.
TEST(LinkProbe, MeasuresTheSameOnAllRanks) {
  std::mutex mutex;
  std::vector<LinkModel> all;
  comm::run_threads(3, [&](const comm::Group& group) {
    const LinkModel mine = measure_link(group, Where::kAllGather);
    const std::lock_guard lock(mutex);
    all.push_back(mine);
  });
  for (const LinkModel& link : all) {
    EXPECT_EQ(link.ranks, 3);
    for (const double value :
         {link.latency_s, link.gather_bytes_per_s, link.reduce_bytes_per_s,
          link.skip_bytes_per_s, link.flops, link.weight_bytes_per_s})
      EXPECT_TRUE(std::isfinite(value) && value > 0) << value;
    EXPECT_EQ(link.latency_s, all[0].latency_s);
    EXPECT_EQ(link.gather_bytes_per_s, all[0].gather_bytes_per_s);
    EXPECT_EQ(link.reduce_bytes_per_s, all[0].reduce_bytes_per_s);
    EXPECT_EQ(link.skip_bytes_per_s, all[0].skip_bytes_per_s);
    EXPECT_EQ(link.flops, all[0].flops);
    EXPECT_EQ(link.weight_bytes_per_s, all[0].weight_bytes_per_s);
  }
}

}  // namespace
}  // namespace sheaf::parallel
