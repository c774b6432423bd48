// Addresses of cards.
// parser: sheaf/comm/network/address.cpp
#include "sheaf/comm/network/address.hpp"

#include "tests/fuzz/byte_source.hpp"

SHEAF_FUZZ_TARGET(address) {
  const auto address = sheaf::comm::parse_address(sheaf::fuzz::text_of(input));
  if (address && sheaf::comm::parse_address(text_of(*address)) != address)
    std::abort();
}
