#include "sheaf/topo/host.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "sheaf/base/system.hpp"
#include "tests/support/expect_error.hpp"

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

using Hosts = std::vector<HostSlots>;

TEST(HostList, ReadsNamesAndSlots) {
  EXPECT_EQ(parse_host_list("a:2,b:2"), (Hosts{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(parse_host_list("a"), (Hosts{{"a", 1}}));
  EXPECT_EQ(parse_host_list("n1.example.org:16, 10.0.0.2"),
            (Hosts{{"n1.example.org", 16}, {"10.0.0.2", 1}}));
  EXPECT_EQ(parse_host_list("[fe80::1]:3,[::1]"),
            (Hosts{{"[fe80::1]", 3}, {"[::1]", 1}}));
  EXPECT_EQ(total_slots(parse_host_list("a:2,b,c:3")), 6);
}

TEST(HostList, RefusesWhatIsNotAHost) {
  expect_throws<UsageError>([] { parse_host_list(""); }, {"name is missing"});
  expect_throws<UsageError>([] { parse_host_list("a,,b"); },
                            {"'a,,b'", "name is missing"});
  expect_throws<UsageError>([] { parse_host_list(":2"); }, {"name is missing"});
  expect_throws<UsageError>([] { parse_host_list("a:0"); },
                            {"'a'", "'0' slots"});
  expect_throws<UsageError>([] { parse_host_list("a:"); }, {"'' slots"});
  expect_throws<UsageError>([] { parse_host_list("a:x"); }, {"'x' slots"});
  expect_throws<UsageError>([] { parse_host_list("a;b"); }, {"'a;b'", "';'"});
  expect_throws<UsageError>([] { parse_host_list("a:2,b,a:3"); },
                            {"'a' is listed twice", "a:5"});
}

TEST(HostFile, ReadsEveryForm) {
  EXPECT_EQ(parse_host_file("# hosts\n\na slots=2\r\nb:3\n"
                            "  c   # one\nd slots=4 max_slots=8\n",
                            "hosts"),
            (Hosts{{"a", 2}, {"b", 3}, {"c", 1}, {"d", 4}}));
}

TEST(HostFile, ErrorsHaveTheLine) {
  expect_throws<UsageError>([] { parse_host_file("a\nb slots=x\n", "hosts"); },
                            {"hosts:2: ", "'b'", "'x' slots"});
  expect_throws<UsageError>([] { parse_host_file("a cpu=2\n", "hosts"); },
                            {"hosts:1: ", "'cpu=2'", "slots=N"});
  expect_throws<UsageError>([] { parse_host_file("a b\n", "hosts"); },
                            {"hosts:1: ", "'b'"});
  expect_throws<UsageError>([] { parse_host_file("a\n#\na\n", "hosts"); },
                            {"hosts:3: ", "twice"});
  expect_throws<UsageError>([] { parse_host_file("# none\n", "hosts"); },
                            {"hosts: ", "no host"});
}

TEST(HostFile, ComesFromTheDisk) {
  const std::string path = testing::TempDir() + "sheaf_host_list_test";
  std::ofstream(path) << "a slots=2\n";
  EXPECT_EQ(read_host_file(path), (Hosts{{"a", 2}}));
  std::remove(path.c_str());
  expect_throws<IoError>([&] { read_host_file(path); }, {path});
}

}  // namespace

}  // namespace sheaf::topo
