#include <gtest/gtest.h>

#include "sheaf/comm/transport/tcp_socket.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

Address address_of(const std::string& text) {
  return parse_card("sheaf-tcp-1 1 1 " + text, 0).addresses.front();
}

TEST(TcpAddress, CardsAreReadAsWritten) {
  TcpCard card{.port = 4711, .token = 12345678901234567890u, .addresses = {}};
  card.addresses = list_addresses("lo");
  const TcpCard read = parse_card(text_of(card), 3);
  EXPECT_EQ(read.port, card.port);
  EXPECT_EQ(read.token, card.token);
  EXPECT_EQ(read.addresses, card.addresses);
  EXPECT_EQ(text_of(read.addresses.front()), "127.0.0.1/8");
  EXPECT_THROW(parse_card("hello", 3), CommError);
}

TEST(TcpAddress, NearAddressesComeFirst) {
  const auto address = [](const char* text) {
    return parse_card(concat("sheaf-tcp-1 1 1 ", text), 0).addresses.front();
  };
  const auto far = address("192.168.7.2/24");
  const auto near = address("10.1.2.3/16");
  const auto loopback = address("127.0.0.1/8");
  EXPECT_EQ(
      by_nearness({far, near, loopback}, {address("10.1.9.9/16"), loopback}),
      (std::vector<Address>{near, far, loopback}));
}

TEST(TcpAddress, AnUnknownInterfaceIsNamed) {
  expect_throws<UsageError>([] { list_addresses("nowhere7"); },
                            {"SHEAF_INTERFACE=nowhere7", "lo"});
}

TEST(TcpAddress, TextsAreReadBack) {
  for (const char* text : {"0.0.0.0/0", "10.1.2.3/16", "192.168.7.2/24",
                           "127.0.0.1/8", "255.255.255.255/32"})
    EXPECT_EQ(text_of(address_of(text)), text);
  // Masks beyond either end are clamped.
  EXPECT_EQ(text_of(address_of("1.2.3.4/33")), "1.2.3.4/32");
  EXPECT_EQ(text_of(address_of("1.2.3.4/-1")), "1.2.3.4/0");
  // What is not an address is the one that no peer has.
  for (const char* text : {"1.2.3.4", "1.2.3/8", "host/8"})
    EXPECT_EQ(address_of(text), Address{}) << text;
}

TEST(TcpAddress, OtherTextsAreNoCards) {
  for (const char* text :
       {"", "sheaf-tcp-1", "sheaf-tcp-2 1 1 10.0.0.1/8", "sheaf-tcp-1 1 1",
        "sheaf-tcp-1 0 1 10.0.0.1/8", "sheaf-tcp-1 x 1 10.0.0.1/8"})
    expect_throws<CommError>(
        [&] { parse_card(text, 3); },
        {"rank 3", concat("'", text, "'"), "same version of Sheaf"});
  // Long texts are cut.
  const std::string text =
      error_of<CommError>([] { parse_card(std::string(200, 'x'), 0); });
  EXPECT_NE(text.find(concat("'", std::string(80, 'x'), "'")),
            std::string::npos);
}

TEST(TcpAddress, LoopbackIsNeverNear) {
  const Address loopback = address_of("127.0.0.1/8");
  const Address far = address_of("192.168.7.2/24");
  EXPECT_EQ(by_nearness({loopback, far}, {loopback}),
            (std::vector<Address>{loopback, far}));
}

}  // namespace
}  // namespace sheaf::comm
