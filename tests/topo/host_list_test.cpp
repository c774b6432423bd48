#include "sheaf/topo/host_list.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

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

// Host names become words of command lines, and of remote shells.
TEST(HostList, RefusesNamesThatNoHostHas) {
  for (const std::string bad :
       {"a$(x)", "a`x`", "a|b", "a&b", "a b", "a\x1b[2J", "a\nb", "(a)", "a*",
        "\xff", "{a}", "a<b"})
    expect_throws<UsageError>([&] { parse_host_list(bad); }, {"contains '"});
  expect_throws<UsageError>([] { parse_host_list("-oProxy"); },
                            {"'-oProxy' begins with '-'"});
  expect_throws<UsageError>([] { parse_host_list(std::string(256, 'a')); },
                            {"more than 255 characters"});
}

TEST(HostList, SlotsDoNotOverflow) {
  expect_throws<UsageError>([] { parse_host_list("a:2147483647"); },
                            {"from 1 to 1048576"});
  std::string many;
  for (int i = 0; i < 2048; ++i) many += concat("h", i, ":1048576,");
  expect_throws<UsageError>([&] { parse_host_list(many + "z"); },
                            {"'h2047' have more than 2147483647 slots"});
}

// 100,000 hosts: comparing each with all others would take minutes.
TEST(HostFile, MayBeLong) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += concat("h", i, " slots=2\n");
  EXPECT_EQ(total_slots(parse_host_file(text, "hosts")), 200'000);
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
