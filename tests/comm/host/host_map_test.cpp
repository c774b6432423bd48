#include "sheaf/comm/host/host_map.hpp"

#include <gtest/gtest.h>

namespace sheaf::comm {
namespace {

using RankNumbers = std::vector<int>;
using RanksOfHosts = std::vector<RankNumbers>;

TEST(HostMap, HostsAreOrderedByTheirFirstRank) {
  const HostMap host_map = make_host_map({"b", "a", "b", "c", "a", "b"}, 4);
  EXPECT_EQ(host_map.hosts, (RanksOfHosts{{0, 2, 5}, {1, 4}, {3}}));
  EXPECT_EQ(host_map.host_of, (RankNumbers{0, 1, 0, 2, 1, 0}));
  EXPECT_EQ(host_map.local_of, (RankNumbers{0, 0, 1, 0, 1, 2}));
  EXPECT_EQ(host_map.rank, 4);
  EXPECT_EQ(host_map.host, 1);
  EXPECT_EQ(host_map.local, 1);
  EXPECT_EQ(host_map.size(), 6);
  EXPECT_EQ(host_map.host_count(), 3);
  EXPECT_EQ(host_map.local_count(), 2);
  EXPECT_EQ(host_map.host_size(0), 3);
  EXPECT_EQ(host_map.local_ranks(), (RankNumbers{1, 4}));
  EXPECT_TRUE(host_map.is_local(1));
  EXPECT_FALSE(host_map.is_local(3));
  EXPECT_EQ(host_map.widest_host(), 3);
  EXPECT_FALSE(host_map.is_uniform());
}

TEST(HostMap, OneRankIsOneHost) {
  const HostMap host_map = make_host_map({"a"}, 0);
  EXPECT_EQ(host_map.hosts, (RanksOfHosts{{0}}));
  EXPECT_TRUE(host_map.is_uniform());
  EXPECT_EQ(host_map.widest_host(), 1);
}

TEST(HostMap, UniformHostsHaveAsManyRanks) {
  EXPECT_TRUE(make_host_map({"a", "b", "b", "a"}, 0).is_uniform());
  EXPECT_FALSE(make_host_map({"a", "b", "b"}, 0).is_uniform());
  EXPECT_FALSE(make_host_map({"a", "a", "b"}, 0).is_uniform());
}

TEST(HostMap, AGroupHasItsOwnOrderOfHosts) {
  const HostMap world = make_host_map({"a", "a", "b", "b", "c"}, 3);
  const HostMap group = sub_host_map(world, {4, 3, 0, 2}, /*rank=*/1);
  EXPECT_EQ(group.hosts, (RanksOfHosts{{0}, {1, 3}, {2}}));  // c, b, a
  EXPECT_EQ(group.host_of, (RankNumbers{0, 1, 2, 1}));
  EXPECT_EQ(group.rank, 1);
  EXPECT_EQ(group.host, 1);
  EXPECT_EQ(group.local, 0);
}

TEST(HostMap, InAFlatLayoutEveryRankIsAHost) {
  const HostMap flat = flat_host_map(make_host_map({"a", "b", "a", "b"}, 2));
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
