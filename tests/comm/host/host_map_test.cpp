#include "sheaf/comm/host/host_map.hpp"

#include <gtest/gtest.h>

namespace sheaf::comm {
namespace {

using RankNumbers = std::vector<int>;
using RanksOfHosts = std::vector<RankNumbers>;

TEST(HostMap, HostsAreOrderedByTheirFirstRank) {
  const Layout layout = make_layout({"b", "a", "b", "c", "a", "b"}, 4);
  EXPECT_EQ(layout.hosts, (RanksOfHosts{{0, 2, 5}, {1, 4}, {3}}));
  EXPECT_EQ(layout.host_of, (RankNumbers{0, 1, 0, 2, 1, 0}));
  EXPECT_EQ(layout.local_of, (RankNumbers{0, 0, 1, 0, 1, 2}));
  EXPECT_EQ(layout.rank, 4);
  EXPECT_EQ(layout.host, 1);
  EXPECT_EQ(layout.local, 1);
  EXPECT_EQ(layout.size(), 6);
  EXPECT_EQ(layout.host_count(), 3);
  EXPECT_EQ(layout.local_count(), 2);
  EXPECT_EQ(layout.host_size(0), 3);
  EXPECT_EQ(layout.local_ranks(), (RankNumbers{1, 4}));
  EXPECT_TRUE(layout.is_local(1));
  EXPECT_FALSE(layout.is_local(3));
  EXPECT_EQ(layout.widest_host(), 3);
  EXPECT_FALSE(layout.is_uniform());
}

TEST(HostMap, OneRankIsOneHost) {
  const Layout layout = make_layout({"a"}, 0);
  EXPECT_EQ(layout.hosts, (RanksOfHosts{{0}}));
  EXPECT_TRUE(layout.is_uniform());
  EXPECT_EQ(layout.widest_host(), 1);
}

TEST(HostMap, UniformHostsHaveAsManyRanks) {
  EXPECT_TRUE(make_layout({"a", "b", "b", "a"}, 0).is_uniform());
  EXPECT_FALSE(make_layout({"a", "b", "b"}, 0).is_uniform());
  EXPECT_FALSE(make_layout({"a", "a", "b"}, 0).is_uniform());
}

TEST(HostMap, AGroupHasItsOwnOrderOfHosts) {
  const Layout world = make_layout({"a", "a", "b", "b", "c"}, 3);
  const Layout group = sub_layout(world, {4, 3, 0, 2}, /*rank=*/1);
  EXPECT_EQ(group.hosts, (RanksOfHosts{{0}, {1, 3}, {2}}));  // c, b, a
  EXPECT_EQ(group.host_of, (RankNumbers{0, 1, 2, 1}));
  EXPECT_EQ(group.rank, 1);
  EXPECT_EQ(group.host, 1);
  EXPECT_EQ(group.local, 0);
}

TEST(HostMap, InAFlatLayoutEveryRankIsAHost) {
  const Layout flat = flat_layout(make_layout({"a", "b", "a", "b"}, 2));
  EXPECT_EQ(flat.hosts, (RanksOfHosts{{0}, {2}, {1}, {3}}));  // host by host
  EXPECT_EQ(flat.host_of, (RankNumbers{0, 2, 1, 3}));
  EXPECT_EQ(flat.local_of, (RankNumbers{0, 0, 0, 0}));
  EXPECT_EQ(flat.rank, 2);
  EXPECT_EQ(flat.host, 1);
  EXPECT_EQ(flat.local, 0);
  EXPECT_EQ(flat.local_count(), 1);
}

}  // namespace
}  // namespace sheaf::comm
