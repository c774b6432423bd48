// Addresses of other ranks, and which of them are near.
// parser: sheaf/comm/network/address_text.cpp
#include "sheaf/comm/network/address.hpp"

#include <algorithm>

#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

using sheaf::comm::Address;

// Lines of addresses. The first is this host's.
SHEAF_FUZZ_TARGET(address) {
  std::vector<Address> addresses;
  std::string_view text = sheaf::fuzz::text_of(input);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto address = sheaf::comm::parse_address(text.substr(0, end))) {
      const std::string printed = text_of(*address);
      SHEAF_FUZZ_CHECK(sheaf::comm::parse_address(printed) == address);
      SHEAF_FUZZ_CHECK(!text_of(sheaf::comm::Endpoint{*address, 7}).empty());
      addresses.push_back(*address);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (addresses.empty()) return;
  const auto sorted = by_nearness(addresses, {addresses.front()});
  SHEAF_FUZZ_CHECK(std::is_permutation(sorted.begin(), sorted.end(),
                                       addresses.begin(), addresses.end()));
}
