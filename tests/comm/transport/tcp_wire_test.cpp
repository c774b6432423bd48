#include "sheaf/comm/transport/tcp_wire.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

TEST(TcpCard, IsReadAsWritten) {
  TcpCard card{.port = 4711, .addresses = list_addresses("lo")};
  card.addresses.push_back(*parse_address("fd00::1/64"));
  const TcpCard read = parse_card(text_of(card), 3);
  EXPECT_EQ(read.port, card.port);
  EXPECT_EQ(read.addresses, card.addresses);
}

TEST(TcpCard, HasABoundedNumberOfAddresses) {
  TcpCard card{.port = 1, .addresses = {}};
  card.addresses.assign(100, *parse_address("10.0.0.1/8"));
  EXPECT_EQ(parse_card(text_of(card), 0).addresses.size(),
            TcpCard::kMostAddresses);
  std::string long_one = "sheaf-tcp-2 1";
  for (int i = 0; i < 65; ++i) long_one += " 10.0.0.1/8";
  EXPECT_THROW(parse_card(long_one, 0), CommError);
}

TEST(TcpCard, OtherTextsAreNoCards) {
  for (const char* text :
       {"", "hello", "sheaf-tcp-2", "sheaf-tcp-1 1 10.0.0.1/8", "sheaf-tcp-2 1",
        "sheaf-tcp-2 0 10.0.0.1/8", "sheaf-tcp-2 x 10.0.0.1/8",
        "sheaf-tcp-2 65536 10.0.0.1/8", "sheaf-tcp-2 1 10.0.0.1",
        "sheaf-tcp-2 1 10.0.0.1/8 host/8"})
    expect_throws<CommError>(
        [&] { parse_card(text, 3); },
        {"rank 3", concat("'", text, "'"), "same version of Sheaf"});
  // Long texts are cut.
  const std::string text =
      error_of<CommError>([] { parse_card(std::string(200, 'x'), 0); });
  EXPECT_NE(text.find(concat("'", std::string(80, 'x'), "'")),
            std::string::npos);
}

}  // namespace
}  // namespace sheaf::comm
