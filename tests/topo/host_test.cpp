#include "sheaf/topo/host.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>

#include "sheaf/base/system.hpp"

namespace sheaf::topo {
namespace {

TEST(Host, CountsWhatIsHere) {
  const HostInfo host = detect_host();
  EXPECT_EQ(host.name, host_name());
  EXPECT_GE(host.sockets(), 1);
  EXPECT_EQ(
      std::accumulate(host.socket_cores.begin(), host.socket_cores.end(), 0),
      host.cores);
  EXPECT_GE(host.cores, 1);
  EXPECT_LE(host.cores, host.hardware_threads);
  EXPECT_LE(host.hardware_threads, ::sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_GE(host.numa_nodes, 1);
  EXPECT_GT(host.memory_bytes, 0);
}

// hwloc reads a synthetic machine from the environment.
class SyntheticHost : public testing::Test {
 protected:
  void use(const char* description) {
    ::setenv("HWLOC_SYNTHETIC", description, 1);
  }
  void TearDown() override { ::unsetenv("HWLOC_SYNTHETIC"); }
};

TEST_F(SyntheticHost, TwoSockets) {
  use("pack:2 [numa(memory=8GB)] l3:1(size=32MB) l2:10(size=1MB) core:1 pu:2");
  const HostInfo host = detect_host();
  EXPECT_EQ(host.socket_cores, (std::vector<int>{10, 10}));
  EXPECT_EQ(host.cores, 20);
  EXPECT_EQ(host.hardware_threads, 40);
  EXPECT_EQ(host.numa_nodes, 2);
  EXPECT_EQ(host.l2.count, 20);
  EXPECT_EQ(host.l3.count, 2);
  EXPECT_EQ(host.l3.bytes, 32 * host.l2.bytes);
  EXPECT_GT(host.memory_bytes, 15'000'000'000);
}

TEST_F(SyntheticHost, WithoutSocketsCoresAndCaches) {
  use("pu:3");
  const HostInfo host = detect_host();
  EXPECT_EQ(host.socket_cores, (std::vector<int>{3}));
  EXPECT_EQ(host.cores, 3);
  EXPECT_EQ(host.l2.count, 0);
  EXPECT_EQ(host.l3.bytes, 0);
}

}  // namespace

}  // namespace sheaf::topo
