#pragma once
// Where a rank listens for the other ranks of the TCP transport.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/comm/network/address.hpp"

namespace sheaf::comm {

struct TcpCard {
  static constexpr std::size_t kMostAddresses = 64;

  std::uint16_t port = 0;  // host byte order
  std::vector<Address> addresses;
};
std::string text_of(const TcpCard& card);
// Throws CommError, which names `rank`, if the text is not a card.
TcpCard parse_card(const std::string& text, int rank);

}  // namespace sheaf::comm
