#include "sheaf/comm/network/address.hpp"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "tests/comm/network/loopback.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

Address address_of(const std::string& text) { return *parse_address(text); }

TEST(Address, TextsAreReadBack) {
  for (const char* text :
       {"0.0.0.0/0", "10.1.2.3/16", "192.168.7.2/24", "127.0.0.1/8",
        "255.255.255.255/32", "::1/128", "fd00::7/64", "2001:db8::1/0"})
    EXPECT_EQ(text_of(address_of(text)), text);
}

TEST(Address, OtherTextsAreNoAddresses) {
  for (const char* text :
       {"", "/", "1.2.3.4", "1.2.3/8", "host/8", "1.2.3.4/33", "1.2.3.4/-1",
        "1.2.3.4/8x", "1.2.3.4/", "::1", "::1/129", "fg00::1/8", "1.2.3.4/ 8"})
    EXPECT_FALSE(parse_address(text)) << text;
}

TEST(Address, ATextWithAZeroByteIsNoAddress) {
  EXPECT_FALSE(parse_address(std::string_view("10.0.0.1\0x/8", 12)));
}

TEST(Address, KnowsLoopbackAndItsFamily) {
  EXPECT_TRUE(address_of("127.3.2.1/8").is_loopback());
  EXPECT_TRUE(address_of("::1/128").is_loopback());
  EXPECT_FALSE(address_of("10.0.0.1/8").is_loopback());
  EXPECT_FALSE(address_of("::2/128").is_loopback());
  EXPECT_TRUE(address_of("10.0.0.1/8").is_v4());
  EXPECT_FALSE(address_of("fd00::1/8").is_v4());
}

TEST(Address, NearAddressesComeFirst) {
  const auto far = address_of("192.168.7.2/24");
  const auto near = address_of("10.1.2.3/16");
  const auto near_v6 = address_of("fd00:1::3/64");
  const auto loopback = address_of("127.0.0.1/8");
  EXPECT_EQ(by_nearness({far, near, loopback, near_v6},
                        {address_of("10.1.9.9/16"), loopback,
                         address_of("fd00:1::9/64")}),
            (std::vector<Address>{near, near_v6, far, loopback}));
}

TEST(Address, LoopbackIsNeverNear) {
  const Address loopback = address_of("127.0.0.1/8");
  const Address far = address_of("192.168.7.2/24");
  EXPECT_EQ(by_nearness({loopback, far}, {loopback}),
            (std::vector<Address>{loopback, far}));
}

TEST(Address, NetworksOfDifferentFamiliesAreApart) {
  const auto v6 = address_of("fd00::1/0");
  const auto v4 = address_of("10.0.0.1/8");
  EXPECT_EQ(by_nearness({v6, v4}, {address_of("10.9.9.9/8")}),
            (std::vector<Address>{v4, v6}));
}

TEST(Address, TheSourceIsWhatAHostCannotChoose) {
  const auto source_text = [](const char* text) {
    return text_of(source_of(address_of(text)));
  };
  EXPECT_EQ(source_text("10.1.2.3/16"), "10.1.2.3/32");
  EXPECT_EQ(source_text("fd00:1:2:3:4:5:6:7/48"), "fd00:1:2:3::/64");
}

TEST(Address, TheLoopbackInterfaceIsListed) {
  const auto found = list_addresses("lo");
  EXPECT_NE(std::find(found.begin(), found.end(), test::kLoopback),
            found.end());
  EXPECT_GE(list_addresses("").size(), found.size());
}

TEST(Address, AnUnknownInterfaceIsNamed) {
  expect_throws<UsageError>([] { list_addresses("nowhere7"); },
                            {"SHEAF_INTERFACE=nowhere7", "lo"});
}

TEST(Address, NamesHaveEndpoints) {
  const auto found = find_endpoints("127.0.0.1", 80);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(text_of(found[0]), "127.0.0.1:80");
  EXPECT_EQ(text_of(find_endpoints("::1", 7)[0]), "[::1]:7");
  EXPECT_TRUE(find_endpoints("localhost", 1)[0].address.is_loopback());
  expect_throws<UsageError>([] { find_endpoints("no-such-host.invalid", 1); },
                            {"'no-such-host.invalid' is not a known host"});
}

// The number of the interface is different on each host.
TEST(Address, LinkLocalAddressesAreRefused) {
  for (const char* host : {"fe80::1%lo", "fe80::1", "febf::1"})
    expect_throws<UsageError>([&] { find_endpoints(host, 1); },
                              {host, "link-local", "use a global address"});
}

TEST(Address, TheWayToLoopbackBeginsAtLoopback) {
  EXPECT_EQ(address_towards({test::kLoopback, 1}), test::kLoopback);
}

// Both families, where the host has IPv6.
TEST(Listening, AcceptsConnections) {
  for (const char* text : {"127.0.0.1/8", "::1/128"}) {
    const Address address = address_of(text);
    const auto mine = list_addresses("lo");
    if (std::find_if(mine.begin(), mine.end(), [&](const Address& one) {
          return one.ip == address.ip;
        }) == mine.end())
      continue;
    for (const std::optional<Address>& at :
         {std::optional<Address>(), std::optional(address)}) {
      std::uint16_t port = 0;
      const Socket listening = listen_at(at, port);
      ASSERT_NE(port, 0);
      int error = 0;
      const Socket mine = connect_within({address, port}, test::soon(), error);
      EXPECT_TRUE(mine) << text << ": " << strerror(error);
      EXPECT_EQ(text_of(peer_of(mine.fd()).value()),
                text_of(Endpoint{address, port}));
    }
  }
}

TEST(Listening, OnOneAddressIsNotReachedByOthers) {
  const test::Listener listener;
  int error = 0;
  EXPECT_FALSE(connect_within({address_of("127.0.0.2/8"), listener.port},
                              test::soon(), error));
  EXPECT_EQ(error, ECONNREFUSED);
}

TEST(Listening, AtATakenPortIsAnError) {
  const test::Listener listener;
  std::uint16_t port = listener.port;
  EXPECT_THROW(listen_at(std::nullopt, port), CommError);
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_THROW(listen_at(test::kLoopback, port), CommError);
  EXPECT_EQ(errno, EADDRINUSE);
}

// Enters a network of its own, in which the kernel chooses between two ports
// for outgoing connections. Returns whether that is possible here.
bool enter_network_with_two_ports() {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  const Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  return ::ioctl(socket.fd(), SIOCSIFFLAGS, &request) == 0 &&
         static_cast<bool>(range << "40000 40001" << std::flush);
}

// Ranks try again and again until rank 0 listens. The kernel may then connect a
// socket to itself, which also keeps rank 0 from listening.
TEST(Connecting, ToAPortWhereNobodyListensNeverSucceeds) {
  enum Exit { kRefused, kConnected, kImpossible };
  const pid_t child = ::fork();
  if (child == 0) {
    if (!enter_network_with_two_ports()) ::_exit(kImpossible);
    for (int i = 0; i < 20; ++i) {
      const auto port = static_cast<std::uint16_t>(40000 + i % 2);
      int error = 0;
      if (connect_within({test::kLoopback, port}, test::soon(), error) ||
          error != ECONNREFUSED)
        ::_exit(kConnected);
    }
    ::_exit(kRefused);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kImpossible)
    GTEST_SKIP() << "networks cannot be created here";
  EXPECT_EQ(WEXITSTATUS(status), kRefused);
}

TEST(Listening, AtAnAddressOfAnotherHostIsAnError) {
  std::uint16_t port = 0;
  EXPECT_THROW(listen_at(address_of("192.0.2.1/32"), port), CommError);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

}  // namespace
}  // namespace sheaf::comm
